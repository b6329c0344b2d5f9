// Draws Vega-Lite specifications with Vega in the colours of the page, and draws them again when these change.

const drawn = new Map(); // id of an element -> { make, options, view }
const tip = document.body.appendChild(el("div", { class: "tip", role: "status" }));

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const CLASS_COLORS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999933", "#AA4499", "#44AA99", "#882255"];
const CLASS_COLORS_DARK = ["#4BA3DE", "#F0B63C", "#2BC49A", "#F08A4B", "#E2A1C4", "#8AD0F5", "#C6C65A", "#D27CC8", "#73D0C2", "#C0577F"];
const isDark = () => color("page") !== "#ffffff";
const classColors = () => (isDark() ? CLASS_COLORS_DARK : CLASS_COLORS);

function config() {
  const [ink, soft, line] = [color("ink"), color("soft"), color("line")];
  return {
    background: null,
    font: getComputedStyle(document.body).fontFamily,
    view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 11,
      titleFontSize: 12, titleFontWeight: "normal", gridOpacity: 0.7, labelLimit: 130 },
    legend: { labelColor: soft, titleColor: soft, titleFontWeight: "normal", labelFontSize: 11 },
    text: { color: ink },
  };
}

// Functions that specifications may call, to read values from arrays of this page that are not in the chart's data.
const functions = {};

// Draw a chart in the element `id`.  make() returns a specification, options.change alters the compiled chart, and
// options.after may add listeners to the view.
async function draw(id, make, options = {}) {
  drawn.get(id)?.view?.finalize();
  const { view } = await vegaEmbed(document.getElementById(id), { width: "container", autosize: { type: "fit-x", contains: "padding" }, ...make() }, {
    mode: "vega-lite", actions: false, defaultStyle: false, renderer: options.renderer || "svg", tooltip: showTip, config: config(),
    expressionFunctions: functions, patch: options.change || (compiled => compiled), logLevel: 1,
  });
  drawn.set(id, { make, options, view });
  options.after?.(view);
  return view;
}

function tipOf(value) {
  if (typeof value !== "object") return [String(value)];
  return value.row !== undefined ? rowTip(value.row) : [Object.entries(value).map(pair => pair.join(": ").replace(/^ +: /, "")).join("\n")];
}

// Draw all charts again with other colours: when the reader switches between light and dark, and for printing.
async function redraw() {
  for (const [id, { make, options }] of [...drawn]) await draw(id, make, options);
  recolor();
  showChosen();
}

function showTip(handler, event, item, value) {
  tip.replaceChildren(...(value === null || value === undefined || value === "" ? [] : tipOf(value)));
  if (!tip.hasChildNodes()) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8)) + "px";
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
