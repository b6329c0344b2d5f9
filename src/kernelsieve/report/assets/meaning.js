// Section "What the components mean": the columns that each depends on, and what changes along it.

const MAX_LISTENED = 25;

async function startMeaning() {
  const body = [], halves = [];
  const both = contents.sensitivity?.columns.length && contents.walks.length;
  if (contents.listening) body.push(...listeningPictures());
  else if (contents.sensitivity?.columns.length) halves.push(el("div", {},
    el("h3", {}, "Which columns each component depends on"),
    el("p", { class: "soft" }, "How far a score moves when a column changes by its usual amount, one standard deviation: the stronger the colour, the further." + (both ? " This is about small changes at single rows. Where it and the table beside it disagree, believe the table: it follows a component from end to end." : "")),
    el("div", { class: "chart", id: "listening" })));
  if (contents.walks.length && !contents.listening) halves.push(el("div", {}, walkBlock()));
  else if (contents.walks.length) body.push(...walkBlock());
  if (halves.length) body.push(el("div", { class: halves.length > 1 ? "two meaning" : null }, halves));
  if (contents.returns) body.push(...returnPictures());
  if (!body.length) body.push(el("p", {}, "This kernel has no derivatives and no way back from scores to rows, so there is nothing to show here."));
  fill("meaning-body", body);
  if (document.getElementById("walk")) showWalk(0);
  if (document.getElementById("listening")) await drawListening();
}

function drawListening() {
  const { columns: names, values } = contents.sensitivity;
  const shown = names.slice(0, MAX_LISTENED).map((name, place) => ({ name, key: `${place}` }));
  const cells = values.flatMap((line, k) => shown.map(({ key }, place) => ({ key, k: k + 1, name: names[place], value: line[place], share: line[place] / (Math.max(...line) || 1) })));
  functions.listenedName = key => names[Number(key)];
  const wide = Math.max(...shown.map(({ name }) => name.length)) > 16 || shown.length > 14 || values.length <= 6;
  const byColumn = { field: "key", type: "ordinal", sort: shown.map(({ key }) => key), axis: { title: null, labelExpr: "listenedName(datum.value)", labelLimit: 170, labelAngle: wide ? 0 : -35, grid: false, ticks: false, domain: false } };
  const byComponent = { field: "k", type: "ordinal", axis: { title: "component", labelAngle: 0, grid: false, ticks: false, domain: false } };
  return draw("listening", () => ({
    description: "Sensitivity of each component to each column",
    width: Math.max(120, Math.min(document.getElementById("listening").clientWidth - 190, (wide ? values.length : shown.length) * 76)),
    height: 24 * (wide ? shown.length : values.length), autosize: "pad", data: { values: cells },
    mark: { type: "rect", cornerRadius: 2, stroke: color("page"), strokeWidth: 1 },
    encoding: {
      x: wide ? { ...byComponent, axis: { ...byComponent.axis, orient: "top" } } : byColumn, y: wide ? byColumn : byComponent,
      color: { field: "share", type: "quantitative", legend: null, scale: { domain: [0, 1], range: [color("card"), color("accent")] } },
      tooltip: [{ field: "name", title: "column" }, { field: "k", title: "component" }, { field: "value", title: "moves the score by", format: ".3g" }],
    },
    ...(names.length > MAX_LISTENED ? { title: { text: `the ${MAX_LISTENED} of ${names.length} columns that move the scores most`, fontSize: 11, fontWeight: "normal", color: color("soft"), anchor: "start" } } : {}),
  }));
}

function walkBlock() {
  const text = "What the model expects to see as one score grows and all others stay at their mean.";
  if (contents.walks[0].pictures) {
    const strips = contents.walks.map((walk, k) => {
      const pixels = unpack(walk.pictures);
      const shown = walk.positions.map((_, place) => pictureOf(picture(walk.pictures, place, pixels, pictureSize(walk.pictures))));
      return el("div", { class: "strip" }, el("span", {}, ordinal(k)), el("div", { class: "pictures" }, shown));
    });
    return [el("h3", {}, "What changes along each component"), el("p", { class: "soft" }, text), ...strips];
  }
  const names = contents.walks.map((_, k) => ordinal(k));
  return [el("h3", {}, "What changes along each component"), el("p", { class: "soft" }, text),
    el("div", { class: "controls" }, chooser("along the", "walk-component", names, 0, showWalk)), el("div", { id: "walk" })];
}

const pictureSize = packed => Math.max(40, Math.min(72, packed.width * 7));

function showWalk(k) {
  const walk = contents.walks[k];
  const last = walk.positions.length - 1, half = last >> 1;
  const most = Math.max(...walk.columns.map(column => column.moved), 1e-9);
  const rows = walk.columns.flatMap(column => {
    const texts = [0, half, last].map(place => written(column.kind, column.values[place], 3));
    if (new Set(texts).size === 1) return []; // nothing changes in the digits shown
    const days = column.kind === "date" && new Set(texts.map(text => text.slice(0, 10))).size > 1;
    const [from, middleValue, to] = days ? texts.map(text => text.slice(0, 10)) : texts;
    const meter = el("span", {}, el("span", { class: "meter", style: `width:${(4 * column.moved / most).toFixed(2)}rem` }), number(column.moved, 2));
    return [[column.name, from, middleValue, to, meter]];
  });
  fill("walk", rows.length ? table(["column", `low end\n(score ${number(walk.positions[0], 2)})`, "middle", `high end\n(score ${number(walk.positions[last], 2)})`, "moves by\n(std devs)"], rows, { headed: true, kind: "walk" }) : el("p", {}, "Nothing moves along this component."));
}

function listeningPictures() {
  const pixels = unpack(contents.listening);
  const shown = Array.from({ length: contents.listening.count }, (_, k) => pictureOf(picture(contents.listening, k, pixels, pictureSize(contents.listening)), ordinal(k).replace(" component", "")));
  return [el("h3", {}, "Which pixels each component depends on"), el("p", { class: "soft" }, "The stronger the mark, the further a change of that pixel by its usual amount moves the score."), el("div", { class: "pictures" }, shown)];
}

// Pictures of rows, and below each the reconstruction from its scores; the two follow each other in the data.
function returnPictures() {
  const packed = contents.returns, pixels = unpack(packed), size = pictureSize(packed);
  const pair = first => el("div", { class: "pair" }, picture(packed, first, pixels, size), picture(packed, first + 1, pixels, size));
  const shown = Array.from({ length: packed.count / 2 }, (_, place) => el("figure", { class: "picture" }, pair(2 * place)));
  return [el("h3", { style: "margin-top:1.6rem" }, "There and back"), el("p", { class: "soft" }, `Rows, and below each the row that its ${contents.n_components} score${single ? "" : "s"} give${single ? "s" : ""} back.`), el("div", { class: "pictures" }, shown)];
}
