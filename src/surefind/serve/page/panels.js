// Panels beside the result: confidence threshold, and uncertainty of the query.

import { surest } from "./answer.js";
import { byId, say } from "./dom.js";
import { curvePlot, histogramPlot, rowAt } from "./plots.js";
import { count, exact, many, number, percent } from "./text.js";

const CONSTANT = "This model gives every image the same variance.";

let calibration = null;
let answer = null;
let current = null; // threshold
let moved = () => {};
let plot = null;

/** `changed(threshold)` is called on every change. */
export function setUpThreshold(changed) {
  moved = changed;
  byId("threshold").addEventListener("input", (event) => moveTo(Number(event.target.value)));
  byId("threshold-reset").addEventListener("click", () => moveTo(start()));
  byId("threshold-more").open = matchMedia("(min-width: 60rem)").matches; // phones show the hits first
}

/** Load a calibration; the slider starts at its threshold of a match. */
export function learnPanels(made) {
  calibration = made;
  current = made === null ? null : start();
  if (made === null) return;
  plot = isMeasured() ? curvePlot(made.curve, made.guarantee.threshold === null ? null : start()) : null;
  byId("threshold-plot").replaceChildren(...(plot === null ? [] : [plot.drawing]));
  say("threshold-guarantee", guaranteeWords());
}

/** Show the slider for a result with confidence; hide it otherwise. */
export function showThreshold(shown) {
  answer = shown;
  const has = calibration !== null && answer !== null && !["no_match", null].includes(answer.verdict) && surest(answer) !== null;
  byId("threshold-card").hidden = !has;
  if (has) moveTo(current);
  else moved(null);
}

const start = () => calibration.match_threshold;

/** A prior calibration has no queries of its own. */
const isMeasured = () => calibration.quality !== null;

function moveTo(value) {
  // The slider rounds; the guarantee holds for the exact value.
  current = Math.abs(value - start()) < 0.0006 ? start() : value;
  const slider = byId("threshold");
  slider.value = String(current);
  const row = rowAt(calibration.curve, current);
  say("threshold-value", exact(current));
  say("threshold-words", measuredWords(row));
  slider.setAttribute("aria-valuetext", `${exact(current)}: ${measuredWords(row)}`);
  byId("threshold-reset").disabled = current === start();
  plot?.moveTo(current, row);
  moved(current);
}

function measuredWords(row) {
  if (!isMeasured()) return "Prior calibration: precision and coverage are not measured on this index.";
  if (row.answered === 0) return "No calibration query is above this threshold.";
  return `Precision ${percent(row.precision)}, coverage ${percent(row.coverage)} `
    + `(${count(row.right)} of ${count(row.answered)} calibration queries correct).`;
}

function guaranteeWords() {
  if (!isMeasured()) return calibration.guaranteed;
  const elsewhere = "Precision and coverage are measured on the calibration queries, not guaranteed.";
  if (calibration.guarantee.threshold === null) return `${calibration.guaranteed} ${elsewhere}`;
  return `Only the threshold ${exact(start())} has a guarantee. ${calibration.guaranteed} `
    + "Other thresholds show what was measured on the calibration queries.";
}

/** Show the query's variance among those of the index; in per cent only with a calibration. */
export function showUncertainty(shown, info) {
  byId("uncertainty").hidden = shown === null;
  if (shown === null) return;
  const { variances } = info;
  const known = variances.counts.length > 0;
  byId("uncertainty-plot").replaceChildren(...(known ? [histogramPlot(variances, shown.query.var)] : []));
  say("uncertainty-words", known ? standing(shown.query.var, variances, { inPercent: info.calibration !== null }) : CONSTANT);
}

function standing(variance, { counts, edges, images, of }, { inPercent }) {
  // Interpolate within a bin.
  const less = Math.round(counts.reduce((sum, here, bin) => {
    const share = Math.log(variance / edges[bin]) / Math.log(edges[bin + 1] / edges[bin]);
    return sum + here * Math.min(1, Math.max(0, share));
  }, 0));
  const surer = images - less;
  const amount = (part) => (inPercent ? `${percent(part / images)} of the indexed images` : `${count(part)} of ${many(images, "image")}`);
  const seen = images < of ? ` (${count(images)} images sampled)` : "";
  const side = surer >= less ? "more certain than" : "less certain than";
  const most = Math.max(surer, less);
  return `Variance ${number(variance)}: ${side} ${most === images ? "all indexed images" : amount(most)}${seen}.`;
}
