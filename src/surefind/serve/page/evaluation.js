// How good the confidence is: what was measured when it was learned, and the report.

import { byId, codeBox, element, unbroken } from "./dom.js";
import { curvePlot, reliabilityPlot, rowAt } from "./plots.js";
import { count, day, share } from "./text.js";

const UNCALIBRATED = "Distances alone do not say how sure a hit is. With labelled images the index learns it";
const NO_REPORT = "A report measures retrieval, calibration and strangers on a whole test set";

export function showEvaluation(info) {
  byId("evaluation").replaceChildren(...(info.calibration === null ? uncalibrated(info) : calibrated(info.calibration)));
  byId("report").replaceChildren(...reportOf(info));
}

function uncalibrated(info) {
  return [
    element("h1", { class: "view-title" }, "Not calibrated yet"),
    element("p", { class: "lead" }, `${UNCALIBRATED}, and this page shows how well:`),
    codeBox(info.how_to_calibrate),
  ];
}

function calibrated(made) {
  const right = `The first hit was right for ${share(made.quality.right)} of them.`;
  const copies = made.left_out === null ? "" : ` ${made.left_out}`;
  const queries = `${count(made.queries)} labelled queries of ${count(made.classes)} classes (${made.source})`;
  return [
    element("h1", { class: "view-title" }, "Does the confidence hold?"),
    element("p", { class: "lead" }, ...unbroken(`Measured on ${queries}, ${day(made.created)}. ${right}${copies}`)),
    element("ul", { class: "tiles" }, ...tiles(made.quality)),
    element("div", { class: "two" }, saidAndTrue(made), element("section", { class: "card" }, ...fewerErrors(made), ...guarantees(made))),
  ];
}

function saidAndTrue(made) {
  const words = "Ten groups of queries, from the least to the most sure. On the diagonal, the confidence said is the share that was right.";
  return element(
    "section", { class: "card" },
    element("h2", {}, "Said and true"),
    element("p", { class: "small" }, words),
    element("div", { class: "plot" }, reliabilityPlot(made.reliability)),
  );
}

function fewerErrors(made) {
  const words = "The share of answers that was right, and the share of queries answered, over the confidence asked for.";
  return [
    element("h2", {}, "Fewer answers, fewer errors"),
    element("p", { class: "small" }, words),
    element("div", { class: "plot" }, measuredPlot(made)),
  ];
}

function guarantees(made) {
  const rows = (lines) => lines.map((words) => element("li", {}, ...unbroken(words)));
  const guaranteed = [
    element("h2", { class: "next" }, "What is guaranteed"),
    element("ul", { class: "plain-list" }, ...rows([made.guaranteed, made.shown, made.no_match])),
  ];
  if (made.remarks.length === 0) return guaranteed;
  return [...guaranteed, element("h3", {}, "Remarks"), element("ul", { class: "plain-list small" }, ...rows(made.remarks))];
}

function measuredPlot({ curve, threshold }) {
  const plot = curvePlot(curve, threshold);
  const place = threshold ?? 0.5;
  plot.moveTo(place, rowAt(curve, place));
  return plot.drawing;
}

function tiles(quality) {
  const than = "the nearest distance alone: ";
  return [
    tile("Right before wrong", quality.auroc, {
      short: "AUROC", beside: `${than}${digits(quality.baseline_auroc)}; d₁/d₂₀: ${digits(quality.ratio_auroc)}`,
      words: "How often a right answer has more confidence than a wrong one. 1 is perfect, 0.5 is guessing. Averaged within the folds.",
    }),
    tile("Off by", quality.ece, {
      short: "ECE", beside: `a perfect model: ${digits(quality.floor)}; ${than}${digits(quality.baseline_ece)}`,
      words: "How far the confidence lies from what was true, on average, less what so few queries add. A perfect model would show the figure above.",
    }),
    tile("Squared error", quality.brier, {
      short: "Brier", beside: `${than}${digits(quality.baseline_brier)}`,
      words: "Of the confidence against right or wrong: sharp and honest at once. 0 is perfect.",
    }),
    tile("Wrong while sure", quality.aurc, {
      short: "AURC", beside: null,
      words: "The error rate, averaged over answering the surest few to all. 0 is perfect.",
    }),
  ];
}

function tile(title, value, { short, beside, words }) {
  return element(
    "li", { class: "card tile" },
    element("p", { class: "tile-title" }, title, " ", element("abbr", {}, short)),
    element("p", { class: "tile-number" }, digits(value)),
    beside === null ? null : element("p", { class: "tile-beside" }, beside),
    element("p", { class: "small" }, words),
  );
}

const digits = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

function reportOf(info) {
  const title = element("h2", { class: "view-subtitle" }, "Evaluation report");
  if (info.report === null) {
    return [
      title,
      element("p", {}, `${NO_REPORT}. Make one, and it is shown here:`),
      codeBox("surefind evaluate MODEL DATA -o REPORT"),
      codeBox(`surefind serve ${info.name} --report REPORT`),
    ];
  }
  const open = element("a", { href: info.report, target: "_blank", rel: "noopener" }, "Open it alone");
  const frame = element("iframe", { src: info.report, title: "Evaluation report", sandbox: "", loading: "lazy" });
  return [element("div", { class: "report-head" }, title, open), frame];
}
