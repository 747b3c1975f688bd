// Confidence said against share right: the reliability diagram.

import { drawn } from "./dom.js";
import { count, share } from "./text.js";

const SIZE = 320;
const FRAME = { left: 44, right: 308, top: 12, bottom: 276 };

const across = (value) => FRAME.left + value * (FRAME.right - FRAME.left);
const up = (value) => FRAME.bottom - value * (FRAME.bottom - FRAME.top);

export function reliabilityPlot(groups) {
  const line = groups.map((group, n) => `${n ? "L" : "M"}${across(group.confidence)} ${up(group.right)}`).join("");
  return drawn(
    "svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": spoken(groups) },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap(level),
    drawn("line", { class: "plot-diagonal", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }),
    drawn("path", { class: "line-precision", d: line }),
    ...groups.map(point),
    drawn("text", { class: "plot-text", x: across(0.5), y: SIZE - 6, "text-anchor": "middle" }, "confidence said"),
    drawn("text", { class: "plot-text", "text-anchor": "middle", transform: `translate(12 ${up(0.5)}) rotate(-90)` }, "share right"),
  );
}

function level(value) {
  return [
    drawn("line", { class: "plot-grid", x1: FRAME.left, x2: FRAME.right, y1: up(value), y2: up(value) }),
    drawn("text", { class: "plot-text", x: FRAME.left - 6, y: up(value) + 4, "text-anchor": "end" }, String(100 * value)),
    drawn("text", { class: "plot-text", x: across(value), y: FRAME.bottom + 16, "text-anchor": "middle" }, String(100 * value)),
  ];
}

function point(group) {
  const words = `said ${share(group.confidence)}, right ${share(group.right)} (${count(group.queries)} queries)`;
  const [cx, cy] = [across(group.confidence), up(group.right)];
  return drawn("circle", { class: "dot-precision", cx, cy, r: 5 }, drawn("title", {}, words));
}

function spoken(groups) {
  const pairs = groups.map((group) => `${share(group.confidence)} said, ${share(group.right)} right`);
  return `Reliability diagram: ${pairs.join("; ")}`;
}
