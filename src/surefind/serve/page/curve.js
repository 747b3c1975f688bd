// Precision and coverage over the threshold, small.

import { drawn } from "./dom.js";

const SIZE = { width: 304, height: 152 };
const FRAME = { left: 34, right: 300, top: 26, bottom: 128 };

const SPOKEN = "Share of answers right and share of queries answered, over the threshold";

const across = (threshold) => FRAME.left + threshold * (FRAME.right - FRAME.left);
const up = (share) => FRAME.bottom - share * (FRAME.bottom - FRAME.top);

/** What was measured nearest to a threshold. */
export function rowAt(rows, threshold) {
  const far = (row) => Math.abs(row.threshold - threshold);
  return rows.reduce((best, row) => (far(row) < far(best) ? row : best));
}

/** The drawing, and a way to move the present place on it. */
export function curvePlot(rows, promised) {
  const place = drawn("line", { class: "plot-place", y1: FRAME.top, y2: FRAME.bottom });
  const right = drawn("circle", { class: "dot-precision", r: 4 });
  const answered = drawn("circle", { class: "dot-coverage", r: 4 });
  const drawing = drawn(
    "svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": SPOKEN },
    ...grid(),
    ...(promised === null ? [] : [promisedMark(promised)]),
    drawn("path", { class: "line-coverage", d: path(rows, "coverage") }),
    drawn("path", { class: "line-precision", d: path(rows, "precision") }),
    ...names(),
    place, answered, right,
  );
  return { drawing, moveTo: (threshold, row) => {
    place.setAttribute("x1", across(threshold));
    place.setAttribute("x2", across(threshold));
    dot(right, threshold, row.precision);
    dot(answered, threshold, row.coverage);
  } };
}

function dot(circle, threshold, share) {
  circle.setAttribute("visibility", share === null ? "hidden" : "visible");
  if (share === null) return;
  circle.setAttribute("cx", across(threshold));
  circle.setAttribute("cy", up(share));
}

function path(rows, key) {
  const known = rows.filter((row) => row[key] !== null);
  return known.map((row, n) => `${n ? "L" : "M"}${across(row.threshold).toFixed(1)} ${up(row[key]).toFixed(1)}`).join("");
}

function grid() {
  const level = (share) => [
    drawn("line", { class: "plot-grid", x1: FRAME.left, x2: FRAME.right, y1: up(share), y2: up(share) }),
    drawn("text", { class: "plot-text", x: FRAME.left - 6, y: up(share) + 4, "text-anchor": "end" }, String(100 * share)),
  ];
  const foot = (share, anchor) => drawn(
    "text", { class: "plot-text", x: across(share), y: FRAME.bottom + 18, "text-anchor": anchor }, `${100 * share} %`,
  );
  return [...[0, 0.5, 1].flatMap(level), foot(0, "start"), foot(0.5, "middle"), foot(1, "end")];
}

function promisedMark(threshold) {
  const d = `M${across(threshold)} ${FRAME.bottom + 1}l5 6h-10Z`;
  return drawn("path", { class: "plot-promise", d }, drawn("title", {}, "the promised threshold"));
}

/** The two lines by name, above the plot: wherever they run, nothing is covered. */
function names() {
  const name = (key, words, x) => [
    drawn("path", { class: `line-${key}`, d: `M${x} 8h22` }),
    drawn("text", { class: `plot-name name-${key}`, x: x + 28, y: 12 }, words),
  ];
  return [...name("precision", "right", FRAME.left), ...name("coverage", "answered", FRAME.left + 84)];
}
