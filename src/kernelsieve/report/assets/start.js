// Fills the head of the page, then all its sections.

function startHead() {
  const fact = (value, text) => el("li", {}, el("b", {}, value), text);
  const explained = contents.shares.reduce((sum, share) => sum + (share ?? 0), 0);
  const [one, rows, used] = [contents.n_components === 1, thousands(contents.n_rows), contents.n_used];
  fill("lead", contents.lead ?? `Kernel PCA of ${rows} rows and ${thousands(contents.n_columns)} columns: ${one ? "the direction" : `the ${contents.n_components} directions`} in which the rows differ most, from ${thousands(contents.n_support)} points instead of all rows.`);
  fill("summary", contents.summary);
  fill("headline",
    fact(rows, `row${contents.n_rows === 1 ? "" : "s"}, ${nShown === contents.n_rows ? "all" : thousands(nShown)} drawn on this page`),
    fact(thousands(contents.n_columns), used === contents.n_columns ? "columns" : `columns, ${thousands(used)} in the model`),
    fact(percent(explained), `of the variance in ${one ? "one component" : `${contents.n_components} components`}`),
    contents.captured_ratio === null ? null : fact(percent(contents.captured_ratio), "of what exact kernel PCA captures"),
    fact(thousands(contents.n_support), "points that a new row is compared with"));
  const sections = [["map", "The map"], ["amount", "How much"], ["meaning", "What it means"], ["odd", "What is odd"], ["points", "Support points"], ["made", "How it was made"]];
  fill("nav", sections.map(([id, text]) => el("a", { href: `#${id}` }, text)));
  fill("footer", `Made with kernelsieve ${contents.version}. This page is one file and needs no network.`);
}

async function start() {
  startHead();
  startOdd();
  startPoints();
  startMade();
  await startMap();
  showChosen();
  await startAmount();
  await startMeaning();
  document.documentElement.dataset.ready = "yes";
}

start();
