"use strict";
// Unpacks the data of the page, and defines helpers that write it as HTML.  Texts of the user's table enter the page
// only as text nodes, never as markup.

const contents = JSON.parse(document.getElementById("contents").textContent);
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[packed.type](bytes.buffer);
}

function unpackScores(packed) {
  const step = (packed.high - packed.low) / packed.steps;
  return Float32Array.from(unpack(packed), value => packed.low + value * step);
}

function unpackColumn(column) {
  const unpacked = { ...column };
  if (column.kind === "text") unpacked.values = column.texts;
  else unpacked.values = unpack(column);
  unpacked.missingAt = i => {
    const value = unpacked.values[i];
    return column.kind === "text" ? value === null : column.kind === "class" ? value < 0 : Number.isNaN(value);
  };
  return unpacked;
}

const nShown = contents.n_shown;
const rowNumbers = unpack(contents.rows);
const columns = contents.columns.map(unpackColumn);
const ERROR_COLUMN = unpackColumn({ name: "reconstruction error", kind: "number", used: false, derived: true, ...contents.errors });
const ownScores = contents.scores.map(unpackScores);
const widthScores = contents.widths.tried.map(width => width.scores.map(unpackScores));

// --- writing ---------------------------------------------------------------------------------------------------------

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

function fill(id, ...children) {
  const element = document.getElementById(id);
  element.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

const thousands = value => value.toLocaleString("en-US");
// An integer of a table, with commas between thousands; one of four digits has none, because it may be a year.
const grouped = value => (value < 10000 ? String(value) : thousands(value));

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value < 0 ? "−" + grouped(-value) : grouped(value);
  const size = Math.abs(value);
  if (size >= 1000 && size < 1e6) return (value < 0 ? "−" : "") + grouped(Number(size.toPrecision(Math.max(4, digits))));
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 2) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

const percent = share => (share === null || share === undefined ? "–"
  : share < 1 && share >= 0.995 ? (100 * share).toFixed(2) : (100 * share).toFixed(1)) + "\u00a0%";

function date(days) {
  if (days === null || Number.isNaN(days)) return "–";
  const moment = new Date(days * 86400000);
  if (Number.isNaN(moment.getTime())) return "–";
  const text = moment.toISOString();
  return Math.abs(days - Math.round(days)) < 1e-6 ? text.slice(0, 10) : text.slice(0, 16).replace("T", " ");
}

// A value as text, in the form of its kind of column.
function written(kind, value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (kind === "class" || kind === "text") return String(value);
  return kind === "date" ? date(value) : number(value, digits);
}

function valueAt(column, i) {
  if (column.missingAt(i)) return "–";
  return written(column.kind, column.kind === "class" ? column.levels[column.values[i]] : column.values[i], 6);
}

function ordinal(k) {
  const place = k + 1, tens = place % 100;
  const ending = tens > 10 && tens < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[place % 10] || "th";
  return `${place}${ending} component`;
}

// The components' shares of the variance at the kernel width that the slider shows.
const sharesNow = () => (state.width === contents.widths.chosen ? contents.shares : contents.widths.tried[state.width].shares);
const shareOf = k => { const share = sharesNow()[k]; return share === undefined || share === null ? null : share; };
const componentTitle = k => ordinal(k) + (shareOf(k) === null ? "" : ` (${percent(shareOf(k))} of the variance)`);

function table(head, rows, options = {}) {
  const cell = (tag, value, place) => {
    const content = value instanceof Node ? value : String(value ?? "–");
    const numeric = (options.numeric || []).includes(place);
    return el(tag, { class: numeric ? "number" : null, title: content instanceof Node || content.length < 24 ? null : content }, content);
  };
  const body = rows.map((row, line) => el("tr", { class: options.strong === line ? "strong" : null },
    row.map((value, place) => cell(place === 0 && options.headed ? "th" : "td", value, place))));
  const box = el("div", { class: "scroll" + (options.tall ? " tall" : ""), tabindex: "0" },
    el("table", { class: options.wrap ? "wrap" : options.kind ?? null },
      el("thead", {}, el("tr", {}, head.map((text, place) => cell("th", text, place)))), el("tbody", {}, body)));
  return el("div", {}, box, cutNote(box, head.length, rows.length));
}

// A note below a table that does not fit its box: it says how to see the rest.
function cutNote(box, nColumns, nRows) {
  const note = el("p", { class: "note", hidden: "" });
  const tell = () => {
    const [across, down] = [box.scrollWidth > box.clientWidth + 1, box.scrollHeight > box.clientHeight + 1];
    note.textContent = `${nColumns} columns and ${nRows} rows: scroll ${across ? "sideways" : ""}${across && down ? " and " : ""}${down ? "down" : ""} for the rest.`;
    note.hidden = !(across || down);
  };
  new ResizeObserver(tell).observe(box);
  return note;
}

// A row or a support point as a picture, in which large values are dark.
function picture(packed, place, pixels, size) {
  const canvas = el("canvas", { width: packed.width, height: packed.height, style: `width:${size}px;height:${size * packed.height / packed.width}px` });
  const context = canvas.getContext("2d");
  const image = context.createImageData(packed.width, packed.height);
  const area = packed.width * packed.height;
  for (let i = 0; i < area; i++) {
    const gray = 255 - pixels[place * area + i];
    image.data.set([gray, gray, gray, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const pictureOf = (canvas, text) => el("figure", { class: "picture" }, canvas, text ? el("figcaption", {}, text) : null);
