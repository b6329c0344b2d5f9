// What is odd, the support points, and how the model was made.

function startOdd() {
  const rows = contents.odd;
  const text = "The rows that the model describes worst: the squared distance, in the kernel's feature space, between a row and what its scores give back. ";
  const toMap = row => el("button", { type: "button", title: "choose it on the map", disabled: row.shown === null ? "" : null, onclick: () => { hideBrush(); choose(i => i === row.shown); document.getElementById("map").scrollIntoView(); } }, thousands(row.row + 1));
  const times = row => ` · error ${number(row.error, 3)}, ${number(row.times, 2)} × the median`;
  if (rows[0]?.pictures) {
    const shown = rows.map(row => {
      const pixels = unpack(row.pictures), size = pictureSize(row.pictures);
      return el("figure", { class: "picture" }, el("div", { class: "pictures", style: "gap:2px;margin:0" }, Array.from({ length: row.pictures.count }, (_, place) => picture(row.pictures, place, pixels, size))), el("figcaption", {}, "row ", toMap(row)));
    });
    fill("odd-body", el("p", {}, text, "On the left the row, on the right what was expected of it."), el("div", { class: "pictures", style: "gap:1.1rem" }, shown));
    return;
  }
  const why = column => el("li", {}, el("b", {}, column.name), " is ", el("b", {}, written(column.kind, column.value)), `, expected ${written(column.kind, column.expected)}`,
    el("span", { class: "soft" }, ` · ${percent(column.share)}`));
  fill("odd-body", el("p", {}, text, "Below each, the columns that make it so, with what the model would have expected there and the column's share in the difference."),
    el("div", { class: "cards" }, rows.map(row => el("div", { class: "card" }, el("div", {}, "row ", toMap(row), el("span", { class: "soft" }, times(row))),
      row.columns.length ? el("ul", {}, row.columns.map(why)) : el("p", { class: "soft" }, row.explained ? "No column stands out." : "This kernel has no way back to rows: no column can be named.")))));
}

function startPoints() {
  const points = contents.points;
  const shownAll = points.shares.length === points.n_all;
  const what = points.rows ? "They are rows of the table." : "They are no rows of the table: they were moved to where they capture most variance" + (points.pictures ? "." : ", and are read back here in the table's own units.");
  const text = `The whole of what the model keeps: every score of every row is a sum over ${points.n_all === 1 ? "this one" : `these ${thousands(points.n_all)}`}. ${what}`;
  const limit = shownAll ? null : el("p", { class: "note" }, `The ${points.shares.length} that stand for most rows.`);
  if (points.pictures) {
    const pixels = unpack(points.pictures);
    const shown = points.shares.map((share, place) => pictureOf(picture(points.pictures, place, pixels, pictureSize(points.pictures)), percent(share)));
    fill("points-body", el("p", {}, text, " Below each, the share of rows to which it is the nearest."), el("div", { class: "pictures" }, shown), limit);
    return;
  }
  const heads = ["nearest point of", ...(points.rows ? ["row"] : []), ...points.columns.map(column => column.name)];
  const lines = points.shares.map((share, place) => [`${percent(share)} of rows`, ...(points.rows ? [thousands(points.rows[place] + 1)] : []), ...points.columns.map((column, c) => written(column.kind, points.values[c][place]))]);
  const numeric = points.columns.flatMap((column, c) => (column.kind === "number" ? [c + 1 + (points.rows ? 1 : 0)] : []));
  fill("points-body", el("p", {}, text), table(heads, lines, { tall: true, headed: true, numeric }), limit);
}

const definitions = pairs => el("dl", {}, pairs.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));

function startMade() {
  fill("made-body",
    el("div", {}, el("h3", {}, "The columns"), definitions(contents.handling), el("h3", { style: "margin-top:1.4rem" }, "The fit"), definitions(contents.facts)),
    el("div", {}, el("h3", {}, "The same model in Python"), el("pre", { tabindex: "0" }, el("code", {}, contents.code))));
  fill("more", contents.tables.map(one => el("section", {}, el("h2", {}, one.title),
    table(one.head, one.rows, { headed: true, strong: one.strong, numeric: one.head.map((_, place) => place).slice(1) }), one.note ? el("p", { class: "note" }, one.note) : null)));
}
