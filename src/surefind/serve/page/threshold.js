// A slider over the confidence, and what was measured there on the calibration queries.

import { byId, say } from "./dom.js";
import { curvePlot, rowAt } from "./curve.js";
import { count, percent, share, threshold as thresholdWords } from "./text.js";

const UNPROMISED = 0.5;

let calibration = null;
let answer = null;
let current = null;
let moved = () => {};
let plot = null;

/** `changed(threshold)` hears of every move. */
export function setUpThreshold(changed) {
  moved = changed;
  byId("threshold").addEventListener("input", (event) => moveTo(Number(event.target.value)));
  byId("threshold-reset").addEventListener("click", () => moveTo(start()));
  byId("threshold-more").open = matchMedia("(min-width: 60rem)").matches; // a phone shows the hits first
}

/** Takes the calibration of the index; the slider goes back to what it promises. */
export function calibrateThreshold(made) {
  calibration = made;
  current = made === null ? null : start();
  if (made === null) return;
  plot = curvePlot(made.curve, made.threshold);
  byId("threshold-plot").replaceChildren(plot.drawing);
  say("threshold-promise", promiseWords());
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
  // The slider rounds; the promise holds for the exact value, so that one is kept beside it.
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
  if (answer.verdict === "foreign") return "This query is called foreign at any threshold.";
  const sure = percent(answer.confidence);
  if (answer.confidence >= current) return `This query would be answered: its first hit has ${sure}.`;
  return `This query would be left open: its first hit has only ${sure}.`;
}

function promiseWords() {
  const elsewhere = "What the slider says is what was measured on the calibration queries, not a promise.";
  if (calibration.threshold === null) return `${calibration.promised} ${elsewhere}`;
  return `Only ${thresholdWords(calibration.threshold)} carries a promise: ${calibration.promised} `
    + "Everywhere else it is what was measured on the calibration queries.";
}
