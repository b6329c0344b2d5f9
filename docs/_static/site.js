document.addEventListener("DOMContentLoaded", () => {
  /* Wide pictures keep legible letters on narrow screens: each lies in a frame that scrolls, by touch or by keyboard. */
  for (const image of document.querySelectorAll(".bd-article img.sphx-glr-single-img, .bd-article img.wide, .bd-article img.drawn")) {
    const frame = document.createElement("div");
    frame.className = "picture";
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", image.alt || "picture");
    for (const theme of ["only-light", "only-dark"]) if (image.classList.contains(theme)) frame.classList.add(theme);
    image.before(frame);
    frame.append(image);
  }
  /* On a narrow screen the cells of a row stand one below the other, each with the name of its column (site.css). */
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.closest(".highlight, dl, .autosummary") || table.classList.contains("autosummary")) continue;
    const heads = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    const cells = [...table.querySelectorAll("tbody td:not(:first-child)")].map((cell) => cell.textContent.trim().length);
    if (heads.length * Math.max(...cells, ...heads.slice(1).map((head) => head.length)) <= 40) {
      table.classList.add("narrow"); /* a few columns of short numbers fit as they are */
      continue;
    }
    table.classList.add("stacked");
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, number) => {
        if (heads[number] && cell.textContent.trim()) cell.dataset.label = heads[number];
      });
    }
  }
});
