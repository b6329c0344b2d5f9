// The map: the scores of all shown rows in two components, coloured by a column, at one width of the kernel.
// The chart reads positions and colours from arrays, through functions; changing its signal "tick" makes it read again.

const state = { x: 0, y: Math.min(1, contents.n_components - 1), width: contents.widths.chosen, column: null, tick: 0 };
const colorColumns = [...columns.filter(column => column.kind !== "text"), ERROR_COLUMN];
const chosen = new Uint8Array(nShown);
let nChosen = 0;
let rowColors = new Array(nShown).fill("#000");
let classes = null; // the labels that the colours stand for; null if rows are not coloured by a class
const MAX_TIP = 8; // number of columns in the note beside the pointer
const DENSE = 3000; // with more rows than this, markers are smaller

function scoresOf(component) {
  const side = widthScores[state.width];
  return side && component < side.length ? side[component] : ownScores[component];
}

let across = scoresOf(state.x);
let up = scoresOf(state.y);
const single = contents.n_components === 1;
// With a single component, the vertical position of a row is random, so that rows can be told apart.
const spread = Float32Array.from({ length: nShown }, (_, i) => ((Math.imul(i + 1, 2654435761) >>> 0) / 4294967296));

functions.mapX = i => across[i];
functions.mapY = i => (single ? spread[i] : up[i]);
functions.mapColor = i => rowColors[i];
functions.mapShown = i => (nChosen === 0 ? 0.75 : chosen[i] ? 0.95 : 0.13);

function rowTip(i) {
  const lines = columns.slice(0, MAX_TIP).map(column => `${column.name}: ${valueAt(column, i)}`);
  const rest = columns.length - MAX_TIP;
  const text = [`row ${rowNumbers[i] + 1}`, ...lines, ...(rest > 0 ? [`and ${rest} more column${rest > 1 ? "s" : ""}`] : [])].join("\n");
  const place = pictures ? pictures.at.indexOf(i) : -1;
  return place < 0 ? [text] : [picture(pictures, place, pictures.pixels, pictureSize(pictures)), text];
}
functions.mapTip = i => ({ row: i });

function mapSpecification() {
  const rows = Array.from({ length: nShown }, (_, i) => ({ i }));
  const read = (name, as) => ({ calculate: `${name}(datum.i, tick)`, as });
  const axis = { grid: true, tickCount: 5, labelFlush: true };
  const scale = { zero: false, nice: false, padding: 12 };
  return {
    description: "Rows in two components",
    height: Math.round(Math.max(280, Math.min(480, innerWidth * 0.8))),
    data: { name: "rows", values: rows },
    params: [{ name: "tick", value: state.tick }, { name: "brush", select: { type: "interval", encodings: single ? ["x"] : ["x", "y"], mark: { fill: color("accent"), fillOpacity: 0.08, stroke: color("accent"), strokeOpacity: 0.8 } } }],
    transform: [read("mapX", "x"), read("mapY", "y"), read("mapColor", "c"), read("mapShown", "o")],
    mark: { type: "circle", size: nShown > DENSE ? 14 : nShown > 600 ? 26 : 48, stroke: null, invalid: null },
    encoding: {
      x: { field: "x", type: "quantitative", scale, axis, title: "@x" },
      y: { field: "y", type: "quantitative", scale, axis: single ? null : axis, title: "@y" },
      color: { field: "c", type: "nominal", scale: null, legend: null },
      opacity: { field: "o", type: "quantitative", scale: null, legend: null },
    },
  };
}

// Makes the axis titles signals, so that they can change with the components without drawing the map again.
function titlesBySignal(compiled) {
  for (const name of ["x", "y"]) {
    compiled.signals.push({ name: `title_${name}`, value: componentTitle(state[name]) });
    for (const axis of compiled.axes || []) if (axis.title === `@${name}`) axis.title = { signal: `title_${name}` };
  }
  for (const mark of compiled.marks) {
    if (mark.type === "symbol") mark.encode.update.tooltip = { signal: "mapTip(datum.i)" };
  }
  return compiled;
}

let mapView = null;
let pending = null;
let lastPress = -Infinity; // when the reader last pressed or let go of the map
let lastMove = -Infinity; // when the rows last moved on the map

function drawMap() {
  return draw("map-chart", mapSpecification, {
    renderer: "canvas", change: titlesBySignal,
    after: view => {
      mapView = view;
      for (const name of ["pointerdown", "pointerup"]) view.addEventListener(name, () => { lastPress = performance.now(); });
      view.addEventListener("click", () => { if (nChosen && !brushIsDrawn()) choose(() => false); });
      view.addSignalListener("brush", (_, region) => {
        // If the reader has not pressed since the rows last moved, the page itself changed the region.
        if (lastPress < lastMove) return;
        pending = region;
        requestAnimationFrame(() => { if (pending !== null) { const last = pending; pending = null; chooseRegion(last); } });
      });
    },
  });
}

function refreshMap() {
  state.tick += 1;
  mapView.signal("title_x", componentTitle(state.x)).signal("title_y", componentTitle(state.y)).signal("tick", state.tick).run();
}

function chooseRegion(region) {
  const [left, right] = region.x || [], [low, high] = region.y || [];
  if (left === undefined) {
    if (nChosen) choose(() => false);
    return;
  }
  const within = (value, one, other) => value >= Math.min(one, other) && value <= Math.max(one, other);
  choose(i => within(across[i], left, right) && (single || within(up[i], low, high)));
}

// Choose the rows that pass a test; the rest of the page then compares them with the others.
function choose(test) {
  nChosen = 0;
  for (let i = 0; i < nShown; i++) nChosen += chosen[i] = test(i) ? 1 : 0;
  refreshMap();
  showChosen();
}

function brushIsDrawn() {
  const [from, to] = mapView.signal("brush_x") || [];
  return from !== to;
}

// Remove the rectangle of the brush.  The rows that were in it stay chosen, so the reader sees where they move.
function hideBrush() {
  lastMove = performance.now();
  if (brushIsDrawn()) mapView.signal("brush_x", [0, 0]).run();
}

function moveRows() {
  hideBrush();
  across = scoresOf(state.x);
  up = scoresOf(state.y);
  refreshMap();
}

// --- colours ---------------------------------------------------------------------------------------------------------

function recolor() {
  const column = state.column;
  const missing = color("faint");
  const palette = classColors();
  if (column === null) {
    classes = null;
    rowColors.fill(color("accent"));
  } else if (column.kind === "class") {
    classes = column.levels.slice(0, palette.length);
    rowColors = Array.from(column.values, code => (code < 0 || code >= palette.length ? missing : palette[code]));
  } else {
    classes = null;
    const [low, high] = rangeOf(column);
    const ramp = colorRamp();
    rowColors = Array.from(column.values, value => (Number.isNaN(value) ? missing : ramp[Math.round(63 * Math.max(0, Math.min(1, (value - low) / (high - low || 1))))]));
  }
  refreshMap();
  fill("map-legend", legend());
}

// The colour scale viridis, without its darkest end on dark pages and without its lightest end on white ones.
const VIRIDIS = [[68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128], [94, 201, 98], [173, 220, 48], [253, 231, 37]];

function colorRamp() {
  const [from, to] = isDark() ? [0.18, 1] : [0, 0.93];
  return Array.from({ length: 64 }, (_, i) => {
    const at = (from + (to - from) * i / 63) * (VIRIDIS.length - 1), below = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return `rgb(${VIRIDIS[below].map((value, part) => Math.round(value + (at - below) * (VIRIDIS[below + 1][part] - value))).join(",")})`;
  });
}

// The range of the middle 98 % of a column's values: otherwise a few far values would give all others one colour.
function rangeOf(column) {
  if (column.range) return column.range;
  const values = Float64Array.from(column.values).filter(Number.isFinite).sort();
  const at = share => values[Math.round(share * (values.length - 1))];
  column.range = values.length ? [at(0.01), at(0.99)] : [0, 1];
  if (column.range[0] === column.range[1] && values.length) column.range = [values[0], values[values.length - 1]];
  return column.range;
}

function legend() {
  const column = state.column;
  if (column === null) return [];
  if (column.kind !== "class") {
    const [low, high] = rangeOf(column);
    const ramp = el("span", { class: "ramp", style: `background:linear-gradient(90deg,${colorRamp().join(",")})` });
    return [el("span", {}, written(column.kind, low)), ramp, el("span", {}, written(column.kind, high)), ...missingKey(column)];
  }
  const palette = classColors();
  const swatch = (text, shade, test) => el("button", { type: "button", title: `choose these rows: ${text}`, onclick: () => { hideBrush(); choose(test); } }, el("i", { style: `background:${shade}` }), el("span", {}, text));
  const named = classes.map((level, code) => swatch(level, palette[code], i => column.values[i] === code));
  const others = column.levels.length - classes.length;
  if (others > 0) named.push(swatch(`${thousands(others)} others`, color("faint"), i => column.values[i] >= classes.length));
  return [...named, ...missingKey(column)];
}

function missingKey(column) {
  return column.missing ? [el("span", { class: "key" }, el("i", { style: `background:${color("faint")}` }), `missing in ${thousands(column.missing)}`)] : [];
}

// --- controls --------------------------------------------------------------------------------------------------------

function chooser(text, id, options, selected, onchange) {
  const select = el("select", { id, onchange: event => onchange(Number(event.target.value)) },
    options.map((name, place) => el("option", { value: place, selected: place === selected ? "" : null }, name)));
  return el("label", {}, el("span", {}, text), select);
}

// The share of the variance on the map that lies between the classes of a column, or between ranges of its numbers,
// corrected for the share that as many random classes would have.
function separation(column) {
  const [low, high] = column.kind === "class" ? [0, column.levels.length] : rangeOf(column);
  const parts = column.kind === "class" ? column.levels.length : BINS;
  const groups = Array.from({ length: parts }, () => [0, 0, 0]);
  let [n, sumX, sumY, squares] = [0, 0, 0, 0];
  for (let i = 0; i < nShown; i++) {
    if (column.missingAt(i)) continue;
    const group = groups[Math.max(0, Math.min(parts - 1, Math.floor((column.values[i] - low) / (high - low || 1) * parts)))];
    group[0] += 1; group[1] += across[i]; group[2] += up[i];
    n += 1; sumX += across[i]; sumY += up[i]; squares += across[i] ** 2 + up[i] ** 2;
  }
  const about = (sumX ** 2 + sumY ** 2) / (n || 1);
  const between = groups.reduce((sum, [count, x, y]) => sum + (count ? (x ** 2 + y ** 2) / count : 0), 0);
  const free = n - groups.filter(([count]) => count).length;
  return squares > about && free > 0 ? 1 - (squares - between) / (squares - about) * (n - 1) / free : 0;
}

// The column to colour by at first: the one that the map separates best, among classes that the model does not use,
// else among all columns that it does not use, else among all classes, else among all columns.
function firstColor() {
  const counts = column => column.whole && new Set(column.values).size === nShown; // a different integer in every row: row numbers
  const few = column => (column.kind === "class" ? column.levels.length > 1 && column.levels.length <= 30 : !counts(column));
  const classed = column => column.kind === "class";
  for (const [pool, least] of [[column => !column.used && classed(column), -1], [column => !column.used, TELLING], [classed, TELLING], [() => true, TELLING]]) {
    const found = colorColumns.filter(column => pool(column) && !column.derived && few(column))
      .map(column => ({ column, apart: separation(column) })).filter(one => one.apart > least);
    if (found.length) return colorColumns.indexOf(found.reduce((best, one) => (one.apart > best.apart ? one : best)).column);
  }
  return 0;
}

const componentNames = () => ownScores.map((_, k) => ordinal(k) + (shareOf(k) ? ` · ${percent(shareOf(k))}` : ""));

// Update the components' names in the menus, which include the shares of variance at the width that is shown.
function renameComponents() {
  const names = componentNames();
  for (const id of ["axis-x", "axis-y"]) Array.from(document.getElementById(id)?.options ?? []).forEach((option, k) => { option.textContent = names[k]; });
}

async function startMap() {
  const names = componentNames();
  const first = firstColor();
  state.column = colorColumns[first];
  fill("map-controls",
    chooser("across", "axis-x", names, state.x, k => { state.x = k; moveRows(); }),
    single ? null : chooser("up", "axis-y", names, state.y, k => { state.y = k; moveRows(); }),
    chooser("coloured by", "color", [...colorColumns.map(column => column.name + (column.used || column.derived ? "" : " (not in the model)")), "nothing"], first, place => { state.column = colorColumns[place] || null; recolor(); }),
    el("button", { type: "button", id: "clear", onclick: () => { hideBrush(); choose(() => false); } }, "clear selection"));
  const all = contents.n_shown === contents.n_rows;
  fill("map-text", `${all ? (nShown === 1 ? "The one row" : `All ${thousands(nShown)} rows`) : `${thousands(nShown)} of the ${thousands(contents.n_rows)} rows, drawn at random with the oddest among them`}, `
    + `placed by ${single ? "their score" : "two of their scores"}: rows that the kernel finds alike lie close together. `
    + "Drag over a region, or press a class below the map, to see its rows and what sets them apart.");
  await drawMap();
  recolor();
  startSlider();
}

function startSlider() {
  const tried = contents.widths.tried;
  if (tried.length < 2) return;
  const text = el("span", {}), explain = el("div", { class: "soft" });
  const tell = () => {
    const width = tried[state.width];
    text.textContent = state.width === contents.widths.chosen ? "as fitted" : `${number(width.factor, 3)} × as fitted`;
    explain.textContent = `gamma ${number(width.gamma, 3)} · the components hold ${percent(state.width === contents.widths.chosen ? contents.shares.reduce((sum, share) => sum + (share ?? 0), 0) : width.explained)} of the variance · maps fitted to two halves of the rows agree to ${percent(width.agreement)}`;
  };
  const input = el("input", { type: "range", id: "width", min: 0, max: tried.length - 1, step: 1, value: state.width, "aria-label": "kernel width",
    oninput: event => { state.width = Number(event.target.value); moveRows(); renameComponents(); tell(); markWidth(); } });
  fill("width-slider", el("label", { for: "width" }, el("b", {}, "Kernel width: "), text), input,
    el("div", { class: "ends" }, el("span", {}, "narrower: fine detail"), el("span", {}, "wider: broad trends")), explain);
  tell();
}
