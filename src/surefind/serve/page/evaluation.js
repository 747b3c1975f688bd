// Evaluation tab: quality of the calibration, and the report.

import { byId, codeBox, element, unbroken } from "./dom.js";
import { curvePlot, reliabilityPlot, rowAt } from "./plots.js";
import { count, day, exact, percent, sentence } from "./text.js";

const UNCALIBRATED = "Distances alone give no confidence. Calibrate the index with labelled images";
const PRIOR = "This index uses the prior calibration of surefind, which was not fitted to it. "
  + "Its confidences are estimates: nothing was measured here, and nothing is guaranteed. To calibrate with labelled images";
const RELIABILITY = "Queries in ten groups by confidence. On the diagonal, confidence equals the share of correct answers.";
const CURVE = "Precision and coverage as functions of the confidence threshold.";
const NO_REPORT = "A report measures retrieval, calibration and out-of-distribution detection on a test set";

export function showEvaluation(info) {
  const { calibration } = info;
  const shown = calibration === null ? uncalibrated : calibration.quality === null ? prior : calibrated;
  byId("evaluation").replaceChildren(...shown(info));
  byId("report").replaceChildren(...reportOf(info));
}

const uncalibrated = (info) => withCommand("Not calibrated yet", UNCALIBRATED, info);

const prior = (info) => [
  ...withCommand("Prior calibration", PRIOR, info),
  element("section", { class: "card prior-rules" }, ...guarantees(info.calibration)),
];

const withCommand = (title, words, info) => [
  element("h1", { class: "view-title" }, title), element("p", { class: "lead" }, `${words}:`), codeBox(info.how_to_calibrate),
];

function calibrated({ calibration: made }) {
  const what = made.origin.evidence === "labels" ? "most probable label" : "first hit";
  const right = `The ${what} was correct for ${percent(made.quality.right)} of them.`;
  const copies = made.left_out === null ? "" : ` ${made.left_out}`;
  const { queries, classes, source, created } = made.origin;
  const data = `${count(queries)} labelled queries of ${count(classes)} classes (${source}), ${day(created)}`;
  return [
    element("h1", { class: "view-title" }, "Calibration quality"),
    element("p", { class: "lead" }, ...unbroken(`Measured on ${data}. ${right}${copies}`)),
    element("ul", { class: "tiles" }, ...tiles(made)),
    element("div", { class: "two" }, plotCard("Reliability", RELIABILITY, reliabilityPlot(made.reliability)),
      plotCard("Precision and coverage", CURVE, measuredPlot(made), ...guarantees(made))),
  ];
}

function plotCard(title, words, plot, ...more) {
  return element(
    "section", { class: "card" },
    element("h2", {}, title), element("p", { class: "small" }, words), element("div", { class: "plot" }, plot), ...more,
  );
}

function guarantees(made) {
  const rows = (lines) => lines.map((words) => element("li", {}, ...unbroken(sentence(words))));
  const guaranteed = [
    element("h2", { class: "next" }, "Guarantees"),
    element("ul", { class: "plain-list" }, ...rows([made.guaranteed, made.shown, made.no_match])),
  ];
  const { remarks } = made.origin;
  if (remarks.length === 0) return guaranteed;
  return [...guaranteed, element("h3", {}, "Remarks"), element("ul", { class: "plain-list small" }, ...rows(remarks))];
}

function measuredPlot({ curve, guarantee, match_threshold: place }) {
  const plot = curvePlot(curve, guarantee.threshold === null ? null : place);
  plot.moveTo(place, rowAt(curve, place));
  return plot.drawing;
}

function tiles({ quality, guarantee, match_threshold: threshold, curve }) {
  const than = "nearest distance: ";
  const vote = quality.vote_auroc === null ? "" : `; label vote: ${exact(quality.vote_auroc)}`;
  const { coverage, precision } = rowAt(curve, threshold);
  const goal = `${guarantee.threshold === null ? "not guaranteed" : "guaranteed"} precision: ${percent(guarantee.precision)}`;
  const measured = precision === null ? "" : `; measured: ${percent(precision)}`;
  return [
    tile("Ranks right above wrong", quality.auroc, {
      short: "AUROC", beside: `${than}${exact(quality.baseline_auroc)}; distance ratio d₁/d₂₀: ${exact(quality.ratio_auroc)}${vote}`,
      words: "Probability that a correct answer has more confidence than a wrong one. 100 % is perfect, 50 % is random. Averaged over cross-validation folds.",
    }),
    tile("Calibration error", quality.ece, {
      short: "ECE", beside: `perfectly calibrated: ${exact(quality.floor)}; ${than}${exact(quality.baseline_ece)}`,
      words: "Mean difference between confidence and accuracy, bias-corrected. Compare with a perfectly calibrated model.",
    }),
    tile("Answered", coverage, {
      short: "coverage", beside: goal + measured,
      words: `Share of queries whose confidence reaches the threshold of ${exact(threshold)}: those called a match.`,
    }),
  ];
}

function tile(title, value, { short, beside, words }) {
  return element(
    "li", { class: "card tile" },
    element("p", { class: "tile-title" }, title, " ", element("abbr", {}, short)),
    element("p", { class: "tile-number" }, exact(value)),
    element("p", { class: "tile-beside" }, ...unbroken(beside)),
    element("p", { class: "small" }, ...unbroken(words)),
  );
}

function reportOf(info) {
  const title = element("h2", { class: "view-subtitle" }, "Evaluation report");
  if (info.report === null) {
    return [
      title,
      element("p", {}, `${NO_REPORT}. To show one here:`),
      codeBox("surefind evaluate MODEL DATA -o REPORT"),
      codeBox(`surefind serve ${info.name} --report REPORT`),
    ];
  }
  const open = element("a", { href: info.report, target: "_blank", rel: "noopener" }, "Open in new tab");
  const frame = element("iframe", { src: info.report, title: "Evaluation report", sandbox: "", loading: "lazy" });
  return [element("div", { class: "report-head" }, title, open), frame];
}
