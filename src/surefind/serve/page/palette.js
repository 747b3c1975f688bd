// Colours of classes and of variances, the same on every visit.

const DISTINCT = ["#3b7dd8", "#e0701b", "#2c9e5b", "#c2396b", "#7d5bd0", "#b08a00", "#17a2b0", "#8a5a3c", "#d64545", "#6b7f2a"];
const CLEAR_TO_UNSURE = [[58, 82, 180], [38, 145, 160], [105, 180, 100], [225, 185, 60], [222, 95, 60]];

/** A colour for each label: chosen by hand for a few, by hue for many. */
export function classColours(labels) {
  const names = [...new Set(labels)].sort();
  const few = names.length <= DISTINCT.length;
  return new Map(names.map((name, n) => [name, few ? DISTINCT[n] : hashed(name)]));
}

/** The place of a variance between the least and the most, by its logarithm, as a colour. */
export function varianceColour(variance, { low, high }) {
  return between(place(variance, { low, high }));
}

export function place(variance, { low, high }) {
  const width = Math.log(high) - Math.log(low);
  return width > 0 ? Math.min(1, Math.max(0, (Math.log(variance) - Math.log(low)) / width)) : 0;
}

export function between(share) {
  const at = share * (CLEAR_TO_UNSURE.length - 1);
  const from = Math.min(Math.floor(at), CLEAR_TO_UNSURE.length - 2);
  const mixed = CLEAR_TO_UNSURE[from].map((part, n) => Math.round(part + (at - from) * (CLEAR_TO_UNSURE[from + 1][n] - part)));
  return `rgb(${mixed.join(" ")})`;
}

function hashed(name) {
  let hash = 2166136261; // FNV-1a: near names get far hues
  for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  const lightness = [0.58, 0.66, 0.74][(hash >>> 16) % 3];
  return `oklch(${lightness} 0.16 ${hash % 360})`; // equally bright to the eye, on white and on black
}
