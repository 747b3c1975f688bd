// Plots: precision and coverage by threshold, reliability diagram, histogram of variances.

import { drawn } from "./dom.js";
import { count, number, percent } from "./text.js";

const CURVE = { width: 304, height: 152, left: 34, right: 300, top: 26, bottom: 128 };
const RELIABILITY = { width: 320, height: 320, left: 44, right: 308, top: 12, bottom: 276 };
const HISTOGRAM = { width: 304, height: 116, left: 4, right: 300, top: 24, bottom: 92 };

const across = (frame, share) => frame.left + share * (frame.right - frame.left);
const up = (frame, share) => frame.bottom - share * (frame.bottom - frame.top);
const text = (x, y, anchor, words) => drawn("text", { class: "plot-text", x, y, "text-anchor": anchor }, words);
const rule = (frame, y) => drawn("line", { class: "plot-grid", x1: frame.left, x2: frame.right, y1: y, y2: y });
const level = (frame, share) => [
  rule(frame, up(frame, share)), text(frame.left - 6, up(frame, share) + 4, "end", String(100 * share)),
];

function plot({ width, height }, label, ...parts) {
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...parts);
}

function line(name, points) {
  const d = points.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return drawn("path", { class: `line-${name}`, d });
}

/** The row of the curve nearest to a threshold. */
export function rowAt(rows, threshold) {
  const far = (row) => Math.abs(row.threshold - threshold);
  return rows.reduce((best, row) => (far(row) < far(best) ? row : best));
}

/** Precision and coverage by threshold; `moveTo` moves the marker. */
export function curvePlot(rows, guaranteed) {
  const place = drawn("line", { class: "plot-place", y1: CURVE.top, y2: CURVE.bottom });
  const dots = Object.fromEntries(["coverage", "precision"].map((key) => [key, drawn("circle", { class: `dot-${key}`, r: 4 })]));
  const curve = (key) => line(key, rows.filter((row) => row[key] !== null)
    .map((row) => [across(CURVE, row.threshold), up(CURVE, row[key])]));
  // Legend above the plot, where no line runs.
  const name = (key, words, x) => [
    drawn("path", { class: `line-${key}`, d: `M${x} 8h22` }),
    drawn("text", { class: `plot-name name-${key}`, x: x + 28, y: 12 }, words),
  ];
  const foot = (share, anchor) => text(across(CURVE, share), CURVE.bottom + 18, anchor, `${100 * share} %`);
  const mark = guaranteed === null ? [] : [drawn(
    "path", { class: "plot-guarantee", d: `M${across(CURVE, guaranteed)} ${CURVE.bottom + 1}l5 6h-10Z` },
    drawn("title", {}, "the guaranteed threshold"),
  )];
  const drawing = plot(
    CURVE, "Precision and coverage by confidence threshold",
    ...[0, 0.5, 1].flatMap((share) => level(CURVE, share)), foot(0, "start"), foot(0.5, "middle"), foot(1, "end"),
    ...mark, curve("coverage"), curve("precision"),
    ...name("precision", "precision", CURVE.left), ...name("coverage", "coverage", CURVE.left + 104),
    place, dots.coverage, dots.precision,
  );
  return { drawing, moveTo: (threshold, row) => {
    for (const key of ["x1", "x2"]) place.setAttribute(key, across(CURVE, threshold));
    for (const [key, dot] of Object.entries(dots)) {
      dot.setAttribute("visibility", row[key] === null ? "hidden" : "visible");
      dot.setAttribute("cx", across(CURVE, threshold));
      dot.setAttribute("cy", up(CURVE, row[key] ?? 0));
    }
  } };
}

/** Reliability diagram: accuracy by confidence. */
export function reliabilityPlot(groups) {
  const at = (group) => [across(RELIABILITY, group.confidence), up(RELIABILITY, group.right)];
  const point = (group) => {
    const words = `confidence ${percent(group.confidence)}, correct ${percent(group.right)} (${count(group.queries)} queries)`;
    return drawn("circle", { class: "dot-precision", cx: at(group)[0], cy: at(group)[1], r: 5 }, drawn("title", {}, words));
  };
  const pairs = groups.map((group) => `confidence ${percent(group.confidence)}, correct ${percent(group.right)}`);
  const { left, right, top, bottom, height } = RELIABILITY;
  return plot(
    RELIABILITY, `Reliability diagram: ${pairs.join("; ")}`,
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((value) => [
      ...level(RELIABILITY, value), text(across(RELIABILITY, value), bottom + 16, "middle", String(100 * value)),
    ]),
    drawn("line", { class: "plot-diagonal", x1: left, y1: bottom, x2: right, y2: top }),
    line("precision", groups.map(at)),
    ...groups.map(point),
    text(across(RELIABILITY, 0.5), height - 6, "middle", "confidence (%)"),
    drawn("text", { class: "plot-text", "text-anchor": "middle", transform: `translate(12 ${up(RELIABILITY, 0.5)}) rotate(-90)` }, "correct (%)"),
  );
}

/** Histogram of the variances of the indexed images, with the query marked; logarithmic axis. */
export function histogramPlot({ counts, edges, images }, variance) {
  const { left, right, top, bottom } = HISTOGRAM;
  const [most, wide] = [Math.max(...counts), (right - left) / counts.length];
  const bars = counts.map((here, bin) => {
    const height = (bottom - top) * here / most;
    return drawn("rect", { class: "plot-bar", x: left + bin * wide, y: bottom - height, width: Math.max(1, wide - 1), height });
  });
  const [low, high] = [edges[0], edges.at(-1)];
  const share = Math.log(variance / low) / Math.log(high / low);
  const x = across(HISTOGRAM, Math.min(1, Math.max(0, share)));
  const anchor = x < 60 ? "start" : x > 244 ? "end" : "middle";
  return plot(
    HISTOGRAM,
    `Variances of ${count(images)} images from ${number(low)} to ${number(high)}; the query has ${number(variance)}`,
    ...bars, rule(HISTOGRAM, bottom),
    drawn("line", { class: "plot-place", x1: x, x2: x, y1: top - 4, y2: bottom }),
    drawn("text", { class: "plot-name name-place", x, y: top - 10, "text-anchor": anchor }, "query"),
    text(left, bottom + 18, "start", `certain ${number(low)}`),
    text(right, bottom + 18, "end", `${number(high)} uncertain`),
  );
}
