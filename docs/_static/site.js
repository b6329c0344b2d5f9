/* Wide pictures keep their size on narrow screens: each lies in a frame that scrolls, by touch or by keyboard. */
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".bd-article img.sphx-glr-single-img, .bd-article img.wide")) {
    const frame = document.createElement("div");
    frame.className = "picture";
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", image.alt || "picture");
    for (const theme of ["only-light", "only-dark"]) if (image.classList.contains(theme)) frame.classList.add(theme);
    image.before(frame);
    frame.append(image);
  }
});
