// Compares the chosen rows with all others: the distributions of every column, those that differ most first.

const BINS = 18;
const TELLING = 0.05; // smaller differences, and smaller shares of the variance, are not mentioned
const MAX_CELLS = 12;
const MAX_LEVELS_SHOWN = 5;
const MAX_TABLE_ROWS = 50;
const SOME_PICTURES = 40; // number of pictures shown while no rows are chosen
let allCells = false;

// The counts of a column's values among the chosen rows and among the others, and the distance between the two
// distributions: for classes half the sum of the absolute differences of their shares, for numbers the largest
// difference of the cumulative shares (the Kolmogorov-Smirnov statistic).
function compared(column) {
  const n = column.kind === "class" ? Math.max(1, column.levels.length) : BINS;
  const [low, high] = column.kind === "class" ? [0, 1] : rangeOf(column);
  const inside = new Float64Array(n), outside = new Float64Array(n);
  for (let i = 0; i < nShown; i++) {
    if (column.missingAt(i)) continue;
    const bin = column.kind === "class" ? column.values[i]
      : Math.max(0, Math.min(n - 1, Math.floor((column.values[i] - low) / (high - low || 1) * n)));
    if (chosen[i]) inside[bin] += 1; else outside[bin] += 1;
  }
  const [ins, outs] = [total(inside), total(outside)];
  let apart = 0, below = 0;
  for (let bin = 0; bin < n; bin++) {
    const difference = inside[bin] / (ins || 1) - outside[bin] / (outs || 1);
    below += difference;
    apart = column.kind === "class" ? apart + Math.abs(difference) / 2 : Math.max(apart, Math.abs(below));
  }
  return { column, inside, outside, ins, outs, low, high, apart: ins && outs ? apart : 0 };
}

const total = counts => counts.reduce((sum, count) => sum + count, 0);

function middle(column, inside) {
  const values = [];
  for (let i = 0; i < nShown; i++) if (!column.missingAt(i) && (inside === null || (chosen[i] === 1) === inside)) values.push(column.values[i]);
  values.sort((a, b) => a - b);
  return values.length ? values[values.length >> 1] : null;
}

function sentence(found) {
  const { column, inside, outside, ins, outs } = found;
  const name = el("b", {}, column.name);
  if (column.kind === "class") {
    let best = 0;
    const gap = level => inside[level] / (ins || 1) - outside[level] / (outs || 1);
    for (let level = 1; level < inside.length; level++) if (gap(level) > gap(best)) best = level;
    return el("li", {}, name, ` is ${column.levels[best]} for ${percent(inside[best] / ins)} of them, for ${percent(outside[best] / outs)} of the others`);
  }
  const [here, there] = [middle(column, true), middle(column, false)];
  const word = here > there ? "higher" : here < there ? "lower" : "spread differently";
  return el("li", {}, name, ` ${here === there ? "is" : "is mostly"} ${word}: median ${written(column.kind, here)} against ${written(column.kind, there)}`);
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function histogram({ inside, outside, ins, outs }) {
  const n = inside.length;
  const highest = Math.max(...inside.map(count => count / (ins || 1)), ...outside.map(count => count / (outs || 1)), 1e-9);
  const steps = (counts, all) => "M0 40" + Array.from(counts, (count, bin) => `V${(40 - 38 * count / (all || 1) / highest).toFixed(1)}H${bin + 1}`).join("") + "V40Z";
  return svg("svg", { viewBox: `0 0 ${n} 40`, preserveAspectRatio: "none", role: "img", "aria-label": "distribution" },
    svg("path", { d: steps(outside, outs), class: "out", "fill-opacity": nChosen ? 0.55 : 0.8 }),
    ...(nChosen ? [svg("path", { d: steps(inside, ins), class: "in", "fill-opacity": 0.6 })] : []));
}

function levelBars({ column, inside, outside, ins, outs }) {
  const order = Array.from(inside.keys()).sort((a, b) => (inside[b] / (ins || 1) + outside[b] / (outs || 1)) - (inside[a] / (ins || 1) + outside[a] / (outs || 1)));
  const bar = (kind, share) => el("div", { class: `bar ${kind}`, style: `width:${(100 * share).toFixed(1)}%` });
  const largest = Math.max(...order.map(level => Math.max(inside[level] / (ins || 1), outside[level] / (outs || 1))), 1e-9);
  const lines = order.slice(0, MAX_LEVELS_SHOWN).map(level => el("div", { class: "level" }, el("span", { title: column.levels[level] ?? "" }, column.levels[level] ?? "–"),
    el("div", { class: "bars" }, nChosen ? bar("in", inside[level] / (ins || 1) / largest) : null, bar("out", outside[level] / (outs || 1) / largest))));
  const rest = order.length - lines.length;
  return [...lines, rest > 0 ? el("div", {}, `and ${thousands(rest)} more`) : null];
}

function cellOf(found) {
  const { column, low, high } = found;
  const title = el("b", { title: column.name }, column.name);
  if (column.kind === "class") return el("div", { class: "cell" }, title, levelBars(found));
  return el("div", { class: "cell" }, title, histogram(found),
    el("div", { class: "ends" }, el("span", {}, (beyond(column, low, -1) ? "≤ " : "") + end(column, low)), el("span", {}, (beyond(column, high, 1) ? "≥ " : "") + end(column, high))));
}

const end = (column, value) => (column.kind === "date" ? date(value).slice(0, 10) : written(column.kind, value, 3));
// Whether values lie beyond an end of the histogram; its first and last bar count them, too.
const beyond = (column, limit, side) => column.kind !== "date" && column.values.some(value => side * (value - limit) > 0);


function showChosen() {
  const comparable = columns.filter(column => column.kind !== "text");
  const found = [...comparable, ERROR_COLUMN].map(compared);
  if (nChosen) found.sort((a, b) => b.apart - a.apart);
  const shown = allCells ? found : found.slice(0, MAX_CELLS);
  const more = found.length > MAX_CELLS ? el("p", {}, el("button", { type: "button", onclick: () => { allCells = !allCells; showChosen(); } }, allCells ? `show the first ${MAX_CELLS}` : `show all ${found.length} columns`)) : null;
  const telling = found.filter(one => one.apart > TELLING).slice(0, 4);
  const key = nChosen ? el("div", {}, el("span", { class: "key" }, el("i", { class: "in" }), "chosen"), el("span", { class: "key" }, el("i", { class: "out" }), "all others")) : null;
  fill("apart",
    el("h3", {}, nChosen ? `What sets ${nChosen === 1 ? "this row" : `these ${thousands(nChosen)} rows`} apart` : "The columns"),
    nChosen ? el("ul", { class: "apart" }, telling.length ? telling.map(sentence) : el("li", {}, nChosen === nShown ? "All rows are chosen." : "Nothing much: their values are spread like those of all other rows.")) : el("p", { class: "soft" }, "Choose rows on the map: their columns will be compared with those of all others here."),
    key, nChosen ? meanPictures() : somePictures(), el("div", { class: "cells" }, shown.map(cellOf)), more,
    contents.n_columns_left_off ? el("p", { class: "note" }, `${thousands(contents.n_columns_left_off)} more columns are in the table but not on this page; these are the ones that the components listen to most.`) : null);
  showRows();
}

// --- the rows themselves ---------------------------------------------------------------------------------------------

const pictures = contents.pictures ? { ...contents.pictures, pixels: unpack(contents.pictures), at: unpack(contents.pictures.rows) } : null;

function meanPictures() {
  if (!pictures) return null;
  const area = pictures.width * pictures.height;
  const sums = [new Float64Array(area), new Float64Array(area)], counts = [0, 0];
  for (let place = 0; place < pictures.count; place++) {
    const side = chosen[pictures.at[place]];
    counts[side] += 1;
    for (let i = 0; i < area; i++) sums[side][i] += pictures.pixels[place * area + i];
  }
  const mean = side => pictureOf(picture(pictures, 0, sums[side].map(sum => sum / (counts[side] || 1)), 88), side ? "chosen, on average" : "all others");
  return el("div", { class: "pictures" }, counts[1] ? mean(1) : null, counts[0] ? mean(0) : null);
}

function somePictures() {
  if (!pictures) return null;
  const step = Math.max(1, Math.floor(pictures.count / SOME_PICTURES));
  return el("div", { class: "pictures" }, Array.from({ length: Math.min(SOME_PICTURES, pictures.count) }, (_, place) => picture(pictures, place * step, pictures.pixels, 36)));
}

function chosenRows() {
  const found = [];
  for (let i = 0; i < nShown; i++) if (chosen[i]) found.push(i);
  return found;
}

function showRows() {
  if (!nChosen) { fill("chosen-rows"); return; }
  const rows = chosenRows();
  const first = rows.slice(0, MAX_TABLE_ROWS);
  const shown = [el("h3", {}, `The rows${pictures ? "" : rows.length > first.length ? `, the first ${first.length} of ${thousands(rows.length)}` : ""}`)];
  if (pictures) {
    const drawnOnes = [];
    for (let place = 0; place < pictures.count && drawnOnes.length < MAX_TABLE_ROWS; place++) if (chosen[pictures.at[place]]) drawnOnes.push(pictureOf(picture(pictures, place, pictures.pixels, 44), columns.length ? valueAt(columns[0], pictures.at[place]) : null));
    shown.push(el("div", { class: "pictures" }, drawnOnes));
  } else {
    const numeric = columns.flatMap((column, place) => (column.kind === "number" ? [place + 1] : []));
    shown.push(table(["row", ...columns.map(column => column.name)], first.map(i => [String(rowNumbers[i] + 1), ...columns.map(column => valueAt(column, i))]), { tall: true, headed: true, numeric }));
  }
  shown.push(el("p", { class: "note" }, el("button", { type: "button", id: "download", onclick: download }, `save ${rows.length === 1 ? "this row" : `these ${thousands(rows.length)} rows`} as CSV`)));
  fill("chosen-rows", shown);
}

function download() {
  const quoted = text => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const plain = (column, i) => (column.missingAt(i) ? "" : column.kind === "number" ? String(column.values[i]) : valueAt(column, i));
  const lines = [["row", ...columns.map(column => column.name)], ...chosenRows().map(i => [String(rowNumbers[i] + 1), ...columns.map(column => plain(column, i))])];
  const address = URL.createObjectURL(new Blob([lines.map(line => line.map(quoted).join(",")).join("\n") + "\n"], { type: "text/csv" }));
  el("a", { href: address, download: "rows.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
