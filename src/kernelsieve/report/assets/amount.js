// Section "How much": components that stand out from chance, the points that they need, and other kernel widths.

function chartBlock(id, title, text, note) {
  return el("div", {}, el("h3", {}, title), el("p", { class: "soft" }, text), el("div", { class: "chart", id }), note ? el("p", { class: "note" }, note) : null);
}

const percentAxis = { format: ".0%", grid: true, tickCount: 4 };
const HEIGHT = 210;

function screeBlock() {
  const scree = contents.scree, M = contents.n_components;
  if (!scree) return null;
  const above = scree.n_above, one = Math.min(above, M) === 1;
  const which = above === 0 ? "No component" : M === 1 ? "The component" : above < M ? `${above} of the ${M} components` : `All ${M} components`;
  const more = above > M ? ` So ${above === M + 1 ? "does one more" : `do ${above - M} more`} that the model does not keep.` : "";
  return chartBlock("scree", "Components", `${which} ${above === 0 || one ? "explains" : "explain"} more than ${above === 0 || one ? "it" : "they"} would in data whose columns were shuffled independently.${more}`,
    `Bars: shares of variance of exact kernel PCA on ${thousands(scree.n_rows)} rows. Band: where 90 % of 19 shuffles lie.`);
}

function drawScree() {
  const scree = contents.scree;
  const values = scree.shares.map((share, k) => ({ k: k + 1, share, low: scree.low[k], high: scree.high[k], kept: k < contents.n_components }));
  return draw("scree", () => ({
    description: "Share of variance of each component, and of shuffled columns",
    height: HEIGHT, data: { values },
    encoding: { x: { field: "k", type: "ordinal", axis: { title: "component", labelAngle: 0, labelOverlap: true, grid: false, ticks: false } } },
    layer: [
      { mark: { type: "bar", width: { band: 0.7 } }, encoding: { y: { field: "share", type: "quantitative", axis: { ...percentAxis, title: null } }, color: { condition: { test: "datum.kept", value: color("accent") }, value: color("faint") }, tooltip: [{ field: "k", title: "component" }, { field: "share", title: "share", format: ".1%" }, { field: "high", title: "shuffled, at most", format: ".1%" }] } },
      { mark: { type: "area", color: color("warm"), opacity: 0.35, interpolate: "monotone" }, encoding: { y: { field: "low", type: "quantitative" }, y2: { field: "high" } } },
      { mark: { type: "line", color: color("warm"), strokeWidth: 1.5, interpolate: "monotone" }, encoding: { y: { field: "high", type: "quantitative" } } },
    ],
  }));
}

function capturedBlock() {
  const ratio = contents.captured_ratio;
  return chartBlock("captured", "Support points", `${thousands(contents.n_support)} points keep ${ratio === null ? "this much" : percent(ratio)} of the variance that exact kernel PCA, which compares all rows, captures with as many components.`,
    contents.captured.curves.length > 1 ? null : "The ring is this model. Other numbers of points were tried on a sample of the rows.");
}

function drawCaptured() {
  const { curves, chosen: size } = contents.captured;
  const values = curves.flatMap(curve => curve.sizes.map((m, place) => ({ name: curve.name, m, share: curve.shares[place] }))).filter(point => point.share !== null);
  const several = curves.length > 1;
  const own = values.filter(point => point.m === size && point.name === curves[0].name);
  const [least, most] = [Math.min(...values.map(point => point.m)), Math.max(...values.map(point => point.m))];
  return draw("captured", () => ({
    description: "Share of exact kernel PCA against the number of points",
    height: HEIGHT, data: { values },
    layer: [
      { mark: { type: "line", strokeWidth: 2, point: { size: 28, filled: true }, color: color("accent") }, encoding: { ...(several ? { color: { field: "name", type: "nominal", sort: null, scale: { domain: curves.map(curve => curve.name), range: [color("accent"), color("warm"), color("rest")] }, legend: { orient: "bottom", title: null } } } : {}), tooltip: [...(several ? [{ field: "name", title: "method" }] : []), { field: "m", title: "points" }, { field: "share", title: "kept", format: ".2%" }] } },
      { data: { values: own }, mark: { type: "point", size: 170, filled: false, strokeWidth: 2, color: color("warm") } },
      { data: { values: own }, mark: { type: "text", dx: 9, dy: 13, align: "left", color: color("ink"), fontSize: 11 }, encoding: { text: { value: `${thousands(size)} points` } } },
    ],
    encoding: {
      x: { field: "m", type: "quantitative", scale: { nice: false, padding: 12, ...(most > 4 * least ? { type: "log" } : { zero: false }) }, axis: { title: "support points", grid: false, tickCount: 5, format: ",.0f", labelOverlap: true } },
      y: { field: "share", type: "quantitative", scale: { zero: false, padding: 10 }, axis: { grid: true, tickCount: 4, title: null, format: ".0%", labelExpr: "format(datum.value, '.3~%')" } },
    },
  }));
}

function widthBlock() {
  const tried = contents.widths.tried;
  if (tried.length < 2) return el("div", {}, el("h3", {}, "Kernel width"), el("p", { class: "soft" }, contents.kernel === "linear" || contents.kernel === "cosine" ? `The ${contents.kernel} kernel has no width.` : "No other width was tried: the kernel has no width, or there are too few rows."));
  return chartBlock("widths", "Kernel width", "The slider below the map runs through these widths. A wider kernel always explains more variance, so that alone is no reason to choose it. Where two halves of the rows disagree, the map shows chance.", null);
}

let widthView = null;

function drawWidths() {
  const tried = contents.widths.tried;
  const values = tried.flatMap(width => [{ factor: width.factor, share: width.explained, what: "variance explained" }, { factor: width.factor, share: width.agreement, what: "two halves agree" }]);
  return draw("widths", () => ({
    description: "Variance explained and agreement of halves against kernel width",
    height: HEIGHT, data: { values },
    params: [{ name: "now", value: tried[state.width].factor }],
    layer: [
      { mark: { type: "line", strokeWidth: 2, point: { size: 24, filled: true } }, encoding: { x: { field: "factor", type: "quantitative", scale: { type: "log", nice: false, padding: 8 }, axis: { title: "width, as a multiple of the fitted one", values: [0.25, 0.5, 1, 2, 4], format: "~g", grid: false } }, y: { field: "share", type: "quantitative", axis: { ...percentAxis, title: null } }, color: { field: "what", type: "nominal", sort: null, scale: { domain: ["variance explained", "two halves agree"], range: [color("accent"), color("warm")] }, legend: { orient: "bottom", title: null } }, tooltip: [{ field: "factor", title: "width" }, { field: "what", title: " " }, { field: "share", title: "share", format: ".1%" }] } },
      { data: { values: [{}] }, transform: [{ calculate: "now", as: "factor" }], mark: { type: "rule", color: color("ink"), strokeDash: [3, 3] }, encoding: { x: { field: "factor", type: "quantitative" } } },
    ],
  }), { after: view => { widthView = view; } });
}

function markWidth() {
  widthView?.signal("now", contents.widths.tried[state.width].factor).runAsync();
}

async function startAmount() {
  fill("amount-charts", screeBlock(), capturedBlock(), widthBlock());
  if (contents.scree) await drawScree();
  await drawCaptured();
  if (contents.widths.tried.length > 1) await drawWidths();
}
