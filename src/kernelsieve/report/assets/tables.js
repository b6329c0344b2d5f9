// Sections "What is odd", "The support points" and "How it was made".

function startOdd() {
  const odd = contents.odd, cards = odd.cards;
  const above = odd.n_odd ? `${thousands(odd.n_odd)} of ${thousands(contents.n_rows)} rows are odd: their error is above ${number(odd.limit, 3)}, the usual limit for outliers (the third quartile plus 1.5 interquartile ranges). `
    : `No row is odd: no error is above ${number(odd.limit, 3)}, the usual limit for outliers (the third quartile plus 1.5 interquartile ranges). These are the rows that the model describes worst. `;
  const what = "The error of a row is the squared distance, in the kernel's feature space, between the row and what its scores give back. ";
  const choose_ = card => { hideBrush(); const those = new Set(card.shown); choose(i => those.has(i)); document.getElementById("map").scrollIntoView(); };
  const toMap = (card, text) => el("button", { type: "button", title: "choose on the map", disabled: card.shown.length ? null : "", onclick: () => choose_(card) }, text);
  if (cards[0]?.pictures) {
    const shown = cards.map(card => {
      const pixels = unpack(card.pictures), size = pictureSize(card.pictures);
      return el("figure", { class: "picture" }, el("div", { class: "pictures", style: "gap:2px;margin:0" }, Array.from({ length: card.pictures.count }, (_, place) => picture(card.pictures, place, pixels, size))), el("figcaption", {}, "row ", toMap(card, String(card.row + 1))));
    });
    fill("odd-body", el("p", {}, above, what, "On the left the row, on the right what was expected of it."), el("div", { class: "pictures", style: "gap:1.1rem" }, shown));
    return;
  }
  const between = (low, high) => (low === high ? low : `${low} to ${high}`);
  const span = (kind, from, to) => (from === null ? "missing" : between(written(kind, from), written(kind, to === undefined ? from : to)));
  const why = column => el("li", {}, el("b", {}, column.name), " is ", el("b", {}, span(column.kind, column.value, column.value_to)), `, expected ${span(column.kind, column.expected, column.expected_to)}`,
    el("span", { class: "soft" }, ` · ${percent(column.share)}`));
  const places = card => card.ranges.map(([from, to]) => (from === to ? from + 1 : `${from + 1}–${to + 1}`)).join(", ") + (card.n_more ? ` and ${thousands(card.n_more)} more` : "");
  const headOf = card => card.n_rows === 1
    ? el("div", {}, "row ", toMap(card, String(card.row + 1)), el("span", { class: "soft" }, ` · error ${number(card.error, 3)}, ${number(card.times, 2)} × the median`))
    : el("div", {}, toMap(card, `${thousands(card.n_rows)} rows`), el("span", { class: "soft" }, ` · error up to ${number(card.error, 3)}, ${number(card.times, 2)} × the median`));
  const advice = odd.advice && el("p", { class: "advice" }, `A few rows make up most of the spread of ${odd.advice.columns.join(", ")}, and that alone makes ${odd.n_odd > odd.n_explained ? "at least " : ""}${thousands(odd.advice.n_rows)} rows odd. To see what else there is, fit with --scale robust, or TableEncoder(scale="robust").`);
  const rest = odd.n_groups > cards.length ? el("p", { class: "note" }, `The ${cards.length} worst of ${thousands(odd.n_groups)} groups${odd.n_odd > odd.n_explained ? `, of the ${thousands(odd.n_explained)} worst rows` : ""}.`) : null;
  fill("odd-body", el("p", {}, above, what, "Rows that are odd for the same reason share a card. It names the column, what the model would have expected there, and the column's share of the difference."),
    advice, el("div", { class: "cards" }, cards.map(card => el("div", { class: "card" }, headOf(card),
      card.columns.length ? el("ul", {}, card.columns.map(why)) : card.text !== undefined ? el("p", {}, card.text) : el("p", { class: "soft" }, card.explained ? "No column stands out." : "This kernel has no way back to rows: no column can be named."),
      card.n_rows > 1 ? el("p", { class: "rows" }, `rows ${places(card)}`) : null))), rest);
}

function startPoints() {
  const points = contents.points;
  const shownAll = points.shares.length === points.n_all;
  const what = points.rows ? "They are rows of the table." : "They are not rows of the table: they were moved to where they capture the most variance" + (points.pictures ? "." : ", and are shown here in the table's own units.");
  const text = `These are all that the model keeps: every score of every row is a sum over ${points.n_all === 1 ? "this one point" : `these ${thousands(points.n_all)} points`}. ${what}`;
  const limit = shownAll ? null : el("p", { class: "note" }, `The ${points.shares.length} that stand for most rows.`);
  if (points.pictures) {
    const pixels = unpack(points.pictures);
    const shown = points.shares.map((share, place) => pictureOf(picture(points.pictures, place, pixels, pictureSize(points.pictures)), percent(share)));
    fill("points-body", el("p", {}, text, " Below each, the share of rows to which it is the nearest."), el("div", { class: "pictures" }, shown), limit);
    return;
  }
  const heads = ["nearest point of", ...(points.rows ? ["row"] : []), ...points.columns.map(column => column.name)];
  const lines = points.shares.map((share, place) => [`${percent(share)} of rows`, ...(points.rows ? [String(points.rows[place] + 1)] : []), ...points.columns.map((column, c) => written(column.kind, points.values[c][place]))]);
  const numeric = points.columns.flatMap((column, c) => (column.kind === "number" ? [c + 1 + (points.rows ? 1 : 0)] : []));
  fill("points-body", el("p", {}, text), table(heads, lines, { tall: true, headed: true, numeric }), limit);
}

const definitions = pairs => el("dl", {}, pairs.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));

function startMade() {
  fill("made-body",
    el("div", {}, el("h3", {}, "The columns"), definitions(contents.handling)), el("div", {}, el("h3", {}, "The fit"), definitions(contents.facts)),
    el("div", { class: "whole" }, el("h3", {}, "The same model in Python"), el("pre", { tabindex: "0" }, el("code", {}, contents.code))));
  fill("more", contents.tables.map(one => el("section", {}, el("h2", {}, one.title),
    table(one.head, one.rows, { headed: true, strong: one.strong, numeric: one.head.map((_, place) => place).slice(1) }), one.note ? el("p", { class: "note" }, one.note) : null)));
}
