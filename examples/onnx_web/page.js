// A drawing becomes 64 numbers, the model makes 12 scores and an error of them, and the page shows where they fall.
import * as ort from "./ort.wasm.min.mjs";

const LIGHT = ["#3b6fd4", "#d9480f", "#2b8a3e", "#a61e9b", "#b08900", "#0b7285", "#e03a78", "#7a5230", "#5f3dc4", "#777f87"];
const DARK = ["#74a3ff", "#ff8c5a", "#63cf7b", "#e58ae0", "#e3bf3e", "#4fc3d9", "#ff86b0", "#c99a70", "#a993ff", "#b4bac0"];
const COLORS = window.matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;
const NEIGHBOURS = 5;
const STROKE = 30; // of the pen, in a pad of 280: what a pen of the data is in digits of their size
const get = (id) => document.getElementById(id);

ort.env.wasm.numThreads = 1; // a row takes microseconds
ort.env.wasm.wasmPaths = "./";

const [data, session] = await Promise.all([
  fetch("digits.json").then((answer) => answer.json()),
  ort.InferenceSession.create("digits.onnx"),
]);

const pad = get("pad");
const pen = pad.getContext("2d", { willReadFrequently: true });
let current = null; // what the model said of the drawing
let busy = false;
let again = false;

// --- the drawing, as the data are made: cut out, 32 x 32, then the ink in blocks of 4 x 4, 0 to 16 -------------------

function inkBox(alpha, size) {
  let [left, top, right, bottom] = [size, size, -1, -1];
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++)
      if (alpha[4 * (y * size + x) + 3] > 60) {
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
  return right < 0 ? null : { left, top, width: right - left + 1, height: bottom - top + 1 };
}

function pixelsOfDrawing() {
  const size = pad.width;
  const box = inkBox(pen.getImageData(0, 0, size, size).data, size);
  if (box === null) return null;
  const small = Object.assign(document.createElement("canvas"), { width: 32, height: 32 });
  const brush = small.getContext("2d");
  const scale = 32 / Math.max(box.width, box.height);
  const [width, height] = [box.width * scale, box.height * scale];
  brush.imageSmoothingQuality = "high";
  brush.drawImage(pad, box.left, box.top, box.width, box.height, (32 - width) / 2, (32 - height) / 2, width, height);
  const alpha = brush.getImageData(0, 0, 32, 32).data;
  const pixels = new Float32Array(64);
  for (let y = 0; y < 32; y++)
    for (let x = 0; x < 32; x++) pixels[8 * (y >> 2) + (x >> 2)] += alpha[4 * (32 * y + x) + 3] / 255;
  return pixels;
}

// --- the model --------------------------------------------------------------------------------------------------------

async function project() {
  if (busy) {
    again = true; // the pen has moved on: once more when this one is done
    return;
  }
  busy = true;
  do {
    again = false;
    const pixels = pixelsOfDrawing();
    if (pixels === null) {
      current = null;
    } else {
      const start = performance.now();
      const { scores, error } = await session.run({ X: new ort.Tensor("float32", pixels, [1, 64]) });
      const time = performance.now() - start;
      current = { pixels: Array.from(pixels), scores: Array.from(scores.data), error: error.data[0], time };
      current.nearest = nearestTo(current.scores);
      current.guess = vote(current.nearest);
    }
    show();
  } while (again);
  busy = false;
}

function nearestTo(scores) {
  const distances = data.scores.map((row, i) => [row.reduce((sum, value, k) => sum + (value - scores[k]) ** 2, 0), i]);
  return distances.sort((a, b) => a[0] - b[0]).slice(0, NEIGHBOURS).map(([, i]) => i);
}

function vote(nearest) {
  const votes = new Array(10).fill(0);
  for (const i of nearest) votes[data.labels[i]] += 1;
  const most = Math.max(...votes);
  return { digit: data.labels[nearest.find((i) => votes[data.labels[i]] === most)], votes: most };
}

// --- what is shown ----------------------------------------------------------------------------------------------------

function drawPixels(canvas, pixels) {
  const brush = canvas.getContext("2d");
  const cell = canvas.width / 8;
  brush.fillStyle = "#fff";
  brush.fillRect(0, 0, canvas.width, canvas.height);
  pixels.forEach((value, i) => {
    brush.fillStyle = `rgba(20, 20, 24, ${value / 16})`;
    brush.fillRect((i % 8) * cell, Math.floor(i / 8) * cell, cell, cell);
  });
}

function show() {
  window.drawing = current;
  get("hint").style.visibility = current === null ? "visible" : "hidden";
  drawPixels(get("seen"), current?.pixels ?? new Array(64).fill(0));
  get("guess").textContent = current === null ? "–" : current.guess.digit;
  get("guess").style.color = current === null ? "" : COLORS[current.guess.digit];
  get("votes").textContent = current === null ? "nothing drawn yet" : `${current.guess.votes} of ${NEIGHBOURS} nearest`;
  const unusual = current !== null && current.error > data.unusual;
  const bar = get("error-bar");
  bar.style.width = current === null ? "0" : `${Math.min(100, (66.6 * current.error) / data.unusual)}%`;
  bar.className = unusual ? "unusual" : "";
  get("error-text").textContent =
    current === null
      ? "reconstruction error"
      : `error ${current.error.toFixed(3)}: ${unusual ? "unlike 99 % of the digits" : "looks like a digit"}`;
  get("time").textContent = current === null ? "" : `${(1000 * current.time).toFixed(0)} µs a projection`;
  const figures = (current?.nearest ?? []).map((i) => {
    const figure = document.createElement("figure");
    const canvas = Object.assign(document.createElement("canvas"), { width: 48, height: 48 });
    drawPixels(canvas, data.images[i]);
    figure.append(canvas, String(data.labels[i]));
    return figure;
  });
  get("nearest").replaceChildren(...figures);
  drawMap();
}

let background = null; // the map without the drawing, made when the axes or the size change

function placed(size) {
  const axes = [Number(get("across").value), Number(get("up").value)];
  const ranges = axes.map((k) => {
    const values = data.scores.map((row) => row[k]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return [low - 0.06 * (high - low), high + 0.06 * (high - low)];
  });
  return (scores) =>
    axes.map((k, i) => {
      const share = Math.min(1, Math.max(0, (scores[k] - ranges[i][0]) / (ranges[i][1] - ranges[i][0])));
      return i === 0 ? share * size.width : (1 - share) * size.height;
    });
}

function drawMap() {
  const map = get("map");
  const size = { width: map.clientWidth, height: map.clientHeight };
  const ratio = window.devicePixelRatio || 1;
  const place = placed(size);
  if (background === null) {
    map.width = size.width * ratio;
    map.height = size.height * ratio;
    background = Object.assign(document.createElement("canvas"), { width: map.width, height: map.height });
    const brush = background.getContext("2d");
    brush.scale(ratio, ratio);
    brush.font = `600 ${size.width < 500 ? 8 : 11}px system-ui, sans-serif`;
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    brush.globalAlpha = 0.6;
    data.scores.forEach((scores, i) => {
      brush.fillStyle = COLORS[data.labels[i]];
      brush.fillText(data.labels[i], ...place(scores));
    });
  }
  const brush = map.getContext("2d");
  brush.setTransform(1, 0, 0, 1, 0, 0);
  brush.clearRect(0, 0, map.width, map.height);
  brush.drawImage(background, 0, 0);
  if (current === null) return;
  brush.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const [x, y] = place(current.scores);
  window.drawing.place = [x, y];
  brush.strokeStyle = brush.fillStyle = style.getPropertyValue("--ink");
  brush.lineWidth = 1.5;
  for (const i of current.nearest) {
    const [a, b] = place(data.scores[i]);
    brush.beginPath();
    brush.moveTo(x, y);
    brush.lineTo(a, b);
    brush.stroke();
  }
  brush.beginPath();
  brush.arc(x, y, 13, 0, 2 * Math.PI);
  brush.fillStyle = style.getPropertyValue("--mark");
  brush.fill();
  brush.lineWidth = 3;
  brush.strokeStyle = style.getPropertyValue("--card");
  brush.stroke();
  brush.fillStyle = style.getPropertyValue("--card");
  brush.font = "700 15px system-ui, sans-serif";
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.fillText(current.guess.digit, x, y + 1);
}

// --- hands ------------------------------------------------------------------------------------------------------------

let last = null;

function placeOnPad(event) {
  const box = pad.getBoundingClientRect();
  return [((event.clientX - box.left) * pad.width) / box.width, ((event.clientY - box.top) * pad.height) / box.height];
}

function stroke(event) {
  const next = placeOnPad(event);
  pen.lineWidth = STROKE;
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
  pen.beginPath();
  pen.moveTo(...last);
  pen.lineTo(...next);
  pen.stroke();
  last = next;
  project();
}

pad.addEventListener("pointerdown", (event) => {
  pad.setPointerCapture(event.pointerId);
  last = placeOnPad(event);
  stroke(event);
});
pad.addEventListener("pointermove", (event) => last !== null && stroke(event));
for (const end of ["pointerup", "pointercancel"]) pad.addEventListener(end, () => (last = null));
get("clear").addEventListener("click", () => {
  pen.clearRect(0, 0, pad.width, pad.height);
  project();
});

get("points").textContent = data.n_support;
get("size").textContent = `${Math.round(data.bytes / 1000)} kB`;
data.shares.forEach((share, k) => {
  const words = `component ${k + 1} (${(100 * share).toFixed(0)} %)`;
  for (const id of ["across", "up"]) get(id).add(new Option(words, k));
});
get("up").value = 1;
for (const id of ["across", "up"])
  get(id).addEventListener("change", () => {
    background = null;
    drawMap();
  });
window.addEventListener("resize", () => {
  background = null;
  drawMap();
});
get("legend").replaceChildren(
  ...COLORS.map((color, digit) => Object.assign(document.createElement("li"), { textContent: digit, style: `color: ${color}` })),
);
show();
document.body.dataset.ready = "yes";
