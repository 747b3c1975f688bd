// Where the picture stands among the gallery's variances.

import { byId, drawn, say } from "./dom.js";
import { read } from "./api.js";
import { count, many, number, share } from "./text.js";

const SIZE = { width: 304, height: 116 };
const FRAME = { left: 4, right: 300, top: 24, bottom: 92 };
const CONSTANT = "This model gives every picture the same variance, so there is nothing to compare.";

let gallery = null;
let turn = 0;

/** `info.calibration` decides whether a share may be told in percent. */
export async function showUncertainty(answer, info) {
  const mine = turn += 1;
  byId("uncertainty").hidden = answer === null;
  if (answer === null) return;
  gallery ??= await (info.has_variance ? read("/v1/uncertainty").catch(() => null) : { counts: [] });
  if (mine !== turn) return; // another answer came meanwhile
  const known = gallery !== null && gallery.counts.length > 0;
  byId("uncertainty-plot").replaceChildren(...(known ? [histogram(answer.query.var)] : []));
  if (known) say("uncertainty-words", standing(answer.query.var, { inPercent: info.calibration !== null }));
  else say("uncertainty-words", gallery === null ? "The gallery's variances could not be read." : CONSTANT);
}

/** Another version of the index has other variances. */
export function forgetUncertainty() {
  gallery = null;
}

function standing(variance, { inPercent }) {
  const less = below(variance);
  const surer = gallery.images - less;
  const told = (part) => (
    inPercent ? `${share(part / gallery.images)} of the gallery` : `${count(part)} of ${many(gallery.images, "image")}`
  );
  const seen = gallery.images < gallery.of ? ` (${count(gallery.images)} images looked at)` : "";
  const start = `Its variance is ${number(variance)}: `;
  if (surer === gallery.images) return `${start}surer than the whole gallery${seen}.`;
  if (less === gallery.images) return `${start}less sure than the whole gallery${seen}.`;
  return surer >= less ? `${start}surer than ${told(surer)}${seen}.` : `${start}less sure than ${told(less)}${seen}.`;
}

/** How many images have a smaller variance; within a bin they are spread evenly. */
function below(variance) {
  let images = 0;
  gallery.counts.forEach((here, bin) => {
    const [low, high] = [gallery.edges[bin], gallery.edges[bin + 1]];
    images += here * clamped((Math.log(variance) - Math.log(low)) / (Math.log(high) - Math.log(low)));
  });
  return Math.round(images);
}

function histogram(variance) {
  const { counts, edges } = gallery;
  const most = Math.max(...counts);
  const wide = (FRAME.right - FRAME.left) / counts.length;
  const bars = counts.map((images, bin) => {
    const high = (FRAME.bottom - FRAME.top) * images / most;
    const [x, y] = [FRAME.left + bin * wide, FRAME.bottom - high];
    return drawn("rect", { class: "plot-bar", x, y, width: Math.max(1, wide - 1), height: high });
  });
  const [least, greatest] = [number(edges[0]), number(edges[edges.length - 1])];
  const here = FRAME.left + place(variance) * (FRAME.right - FRAME.left);
  const anchor = here < 60 ? "start" : here > 244 ? "end" : "middle";
  const label = `Variances of ${count(gallery.images)} images from ${least} to ${greatest}; this picture has ${number(variance)}`;
  return drawn(
    "svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": label },
    ...bars,
    drawn("line", { class: "plot-grid", x1: FRAME.left, x2: FRAME.right, y1: FRAME.bottom, y2: FRAME.bottom }),
    drawn("line", { class: "plot-place", x1: here, x2: here, y1: FRAME.top - 4, y2: FRAME.bottom }),
    drawn("text", { class: "plot-name name-place", x: here, y: FRAME.top - 10, "text-anchor": anchor }, "this picture"),
    drawn("text", { class: "plot-text", x: FRAME.left, y: FRAME.bottom + 18 }, `surer ${least}`),
    drawn("text", { class: "plot-text", x: FRAME.right, y: FRAME.bottom + 18, "text-anchor": "end" }, `${greatest} less sure`),
  );
}

function place(variance) {
  const { edges } = gallery;
  const [low, high] = [Math.log(edges[0]), Math.log(edges[edges.length - 1])];
  return clamped((Math.log(variance) - low) / (high - low));
}

const clamped = (value) => Math.min(1, Math.max(0, value));
