// Beside the answer: a slider over the confidence, and where the picture stands among the gallery's variances.

import { read } from "./api.js";
import { byId, say } from "./dom.js";
import { curvePlot, histogramPlot, rowAt } from "./plots.js";
import { count, many, number, percent, share, threshold as thresholdWords } from "./text.js";

const UNPROMISED = 0.5;
const CONSTANT = "This model gives every picture the same variance, so there is nothing to compare.";

let calibration = null;
let answer = null;
let current = null; // threshold
let moved = () => {};
let plot = null;
let gallery = null; // its variances
let turn = 0;

/** `changed(threshold)` hears of every move. */
export function setUpThreshold(changed) {
  moved = changed;
  byId("threshold").addEventListener("input", (event) => moveTo(Number(event.target.value)));
  byId("threshold-reset").addEventListener("click", () => moveTo(start()));
  byId("threshold-more").open = matchMedia("(min-width: 60rem)").matches; // a phone shows the hits first
}

/** Takes another version of the index; the slider goes back to what its calibration guarantees. */
export function learnPanels(made) {
  gallery = null;
  calibration = made;
  current = made === null ? null : start();
  if (made === null) return;
  plot = curvePlot(made.curve, made.threshold);
  byId("threshold-plot").replaceChildren(plot.drawing);
  say("threshold-guarantee", guaranteeWords());
}

/** Shows the slider for an answer with confidence, and hides it for any other. */
export function showThreshold(shown) {
  answer = shown;
  const has = calibration !== null && answer !== null && answer.confidence !== null;
  byId("threshold-card").hidden = !has;
  if (has) moveTo(current);
  else moved(null);
}

const start = () => calibration.threshold ?? UNPROMISED;

function moveTo(value) {
  // The slider rounds; the guarantee holds for the exact value, so that one is kept beside it.
  current = Math.abs(value - start()) < 0.0006 ? start() : value;
  const slider = byId("threshold");
  slider.value = String(current);
  const row = rowAt(calibration.curve, current);
  say("threshold-value", thresholdWords(current));
  say("threshold-words", measuredWords(row));
  say("threshold-fate", fateWords());
  slider.setAttribute("aria-valuetext", `${thresholdWords(current)}: ${measuredWords(row)}`);
  byId("threshold-reset").disabled = current === start();
  plot.moveTo(current, row);
  moved(current);
}

function measuredWords(row) {
  if (row.answered === 0) return "No calibration query was that sure: nothing would be answered.";
  return `Of the answers kept, ${share(row.precision)} were right; ${share(row.coverage)} of queries are answered `
    + `(${count(row.right)} of ${count(row.answered)} calibration queries right).`;
}

function fateWords() {
  if (answer.verdict === "no_match") return "This query is called foreign at any threshold.";
  const sure = percent(answer.confidence);
  if (answer.confidence >= current) return `This query would be answered: its first hit has ${sure}.`;
  return `This query would be left open: its first hit has only ${sure}.`;
}

function guaranteeWords() {
  const elsewhere = "What the slider says is what was measured on the calibration queries, not a guarantee.";
  if (calibration.threshold === null) return `${calibration.guaranteed} ${elsewhere}`;
  return `Only ${thresholdWords(calibration.threshold)} carries a guarantee: ${calibration.guaranteed} `
    + "Everywhere else it is what was measured on the calibration queries.";
}

/** `info.calibration` decides whether a share may be told in percent. */
export async function showUncertainty(shown, info) {
  const mine = turn += 1;
  byId("uncertainty").hidden = shown === null;
  if (shown === null) return;
  gallery ??= await (info.has_variance ? read("/v1/uncertainty").catch(() => null) : { counts: [] });
  if (mine !== turn) return; // another answer came meanwhile
  const known = gallery !== null && gallery.counts.length > 0;
  byId("uncertainty-plot").replaceChildren(...(known ? [histogramPlot(gallery, shown.query.var)] : []));
  if (known) say("uncertainty-words", standing(shown.query.var, { inPercent: info.calibration !== null }));
  else say("uncertainty-words", gallery === null ? "The gallery's variances could not be read." : CONSTANT);
}

function standing(variance, { inPercent }) {
  const { counts, edges, images, of } = gallery;
  // Within a bin, images are spread evenly.
  const less = Math.round(counts.reduce((sum, here, bin) => {
    const share = Math.log(variance / edges[bin]) / Math.log(edges[bin + 1] / edges[bin]);
    return sum + here * Math.min(1, Math.max(0, share));
  }, 0));
  const surer = images - less;
  const told = (part) => (inPercent ? `${share(part / images)} of the gallery` : `${count(part)} of ${many(images, "image")}`);
  const seen = images < of ? ` (${count(images)} images looked at)` : "";
  const side = surer >= less ? "surer than" : "less sure than";
  const most = Math.max(surer, less);
  return `Its variance is ${number(variance)}: ${side} ${most === images ? "the whole gallery" : told(most)}${seen}.`;
}
