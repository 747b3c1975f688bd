// Map of the indexed images: similar images lie near each other. Colours, legend, selected point.

import { fetched, pause, waitOf } from "./api.js";
import { button, byId, drawn, element, radios, say } from "./dom.js";
import { View, draw, fit, nearest, setUpGestures, towards } from "./map_canvas.js";
import { number, sentence, shortened } from "./text.js";

const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const MOST_NAMED = 40;
const UNLABELLED = "#8a94a0";
const DISTINCT = ["#3b7dd8", "#e0701b", "#2c9e5b", "#c2396b", "#7d5bd0", "#b08a00", "#17a2b0", "#8a5a3c", "#d64545", "#6b7f2a"];
const CERTAIN_TO_UNCERTAIN = [[58, 82, 180], [38, 145, 160], [105, 180, 100], [225, 185, 60], [222, 95, 60]];

const view = new View();
let points = null;
let loading = false;
let colours = [];
let current = null;
let ringed = new Set(); // items of the current result
let pictures = false;
let open = () => {};

export function setUpMap({ open: opened }) {
  open = opened;
  const canvas = byId("map");
  setUpGestures(canvas, view, {
    moved: () => { canvas.style.touchAction = view.zoom > 1 ? "none" : "pan-y"; refresh(); },
    hovered: (place) => pointAt(place === null ? null : nearest(points, view, place)),
    clicked: (place) => { const n = nearest(points, view, place); if (n !== null) openPoint(n); },
  });
  canvas.addEventListener("keydown", walk);
  canvas.addEventListener("blur", () => pointAt(null));
  const zoomed = (factor) => () => { view.zoomBy(factor); refresh(); };
  byId("map-in").addEventListener("click", zoomed(1.5));
  byId("map-out").addEventListener("click", zoomed(1 / 1.5));
  byId("map-whole").addEventListener("click", () => { view.whole(); refresh(); });
  byId("map-class").addEventListener("change", refresh);
  byId("map-colour").addEventListener("change", recolour);
  new ResizeObserver(() => { if (points) { fit(canvas, view); refresh(); } }).observe(byId("map-box"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
}

/** Fetch the map when first opened; poll while the server computes it. */
export async function showMap() {
  if (points !== null || loading) return;
  loading = true;
  byId("map-words").setAttribute("aria-busy", "true");
  try {
    const map = await made();
    say("map-words", map.sentence);
    if (map.items.length === 0) return;
    points = map;
    for (const id of ["map-bar", "map-box"]) byId(id).hidden = false;
    showChoices();
    view.frame(points.x, points.y);
    fit(byId("map"), view);
    recolour();
  } catch (failure) {
    say("map-words", [failure.problem ?? "The map could not be drawn.", failure.fix].filter(Boolean).join(" "));
  } finally {
    loading = false;
    byId("map-words").setAttribute("aria-busy", "false");
  }
}

async function made() {
  for (;;) {
    const response = await fetched("/v1/map");
    const map = await response.json();
    if (map.ready) return map;
    say("map-words", `${sentence(map.sentence).slice(0, -1)} …`);
    await pause(waitOf(response));
  }
}

/** Drop the map of an older version of the index. */
export function forgetMap(info) {
  points = null;
  current = null;
  pictures = info.pictures;
  for (const id of ["map-bar", "map-box"]) byId(id).hidden = true;
  byId("map-legend").replaceChildren();
  say("map-words", info.images === 0 ? "This index has no images yet." : "Loading the map");
}

export function markOnMap(answer) {
  ringed = new Set(answer.hits.map((hit) => hit.item));
  if (answer.query.item !== null) ringed.add(answer.query.item);
  refresh();
}

const namesOf = () => [...new Set(points.labels.filter((label) => label !== null))].sort();

/** The range of variances, or null if they are all equal. */
function variances() {
  const low = points.var.reduce((least, variance) => Math.min(least, variance), Infinity);
  const high = points.var.reduce((most, variance) => Math.max(most, variance), -Infinity);
  return low > 0 && high > low * 1.0001 ? { low, high } : null;
}

function showChoices() {
  const names = namesOf();
  const choices = [];
  if (names.length) choices.push({ value: "class", words: "Class" });
  if (variances()) choices.push({ value: "variance", words: "Uncertainty" });
  radios(byId("map-colour"), { name: "map-colour", choices, chosen: choices[0]?.value });
  byId("map-colour").hidden = choices.length < 2;
  const select = byId("map-class");
  const option = (value, words) => element("option", { value }, words);
  select.replaceChildren(option("", "all classes"), ...names.map((name) => option(name, name)));
  select.parentElement.hidden = names.length === 0;
}

function recolour() {
  const byVariance = document.querySelector("#map-colour input:checked")?.value === "variance";
  if (byVariance) {
    const { low, high } = variances();
    colours = points.var.map((variance) => between(Math.log(variance / low) / Math.log(high / low)));
    const step = (_, n) => drawn("rect", { x: n * 8, y: 0, width: 8.5, height: 12, fill: between(n / 23) });
    const ramp = { class: "ramp", viewBox: "0 0 192 12", width: 192, height: 12, "aria-hidden": "true" };
    byId("map-legend").replaceChildren(
      element("span", {}, `certain ${number(low)}`),
      drawn("svg", ramp, ...Array.from({ length: 24 }, step)),
      element("span", {}, `${number(high)} uncertain`),
    );
  } else {
    const names = namesOf();
    // A fixed palette for few classes, hashed hues for many: stable across visits.
    const ofClass = new Map(names.map((name, n) => [name, names.length <= DISTINCT.length ? DISTINCT[n] : hashed(name)]));
    colours = points.labels.map((label) => ofClass.get(label) ?? UNLABELLED);
    byId("map-legend").replaceChildren(...(names.length > MOST_NAMED
      ? [element("span", {}, `${names.length} classes, one colour each`)]
      : names.map((name) => legendButton(name, ofClass.get(name)))));
  }
  refresh();
}

/** A colour from certain (0) to uncertain (1). */
function between(share) {
  const at = share * (CERTAIN_TO_UNCERTAIN.length - 1);
  const from = Math.min(Math.floor(at), CERTAIN_TO_UNCERTAIN.length - 2);
  const mixed = CERTAIN_TO_UNCERTAIN[from].map((part, n) => Math.round(part + (at - from) * (CERTAIN_TO_UNCERTAIN[from + 1][n] - part)));
  return `rgb(${mixed.join(" ")})`;
}

function hashed(name) {
  let hash = 2166136261; // FNV-1a: similar names get different hues
  for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  const lightness = [0.58, 0.66, 0.74][(hash >>> 16) % 3];
  return `oklch(${lightness} 0.16 ${hash % 360})`; // perceptually uniform lightness
}

/** A legend entry that toggles the highlight of its class. */
function legendButton(name, colour) {
  const swatch = element("span", { class: "swatch" });
  swatch.style.backgroundColor = colour;
  return button({ class: "legend-name" }, () => {
    const select = byId("map-class");
    select.value = select.value === name ? "" : name;
    select.dispatchEvent(new Event("change"));
  }, swatch, name);
}

function refresh() {
  if (points === null) return;
  const setOff = byId("map-class").value;
  draw(byId("map"), points, view, {
    colours, current,
    isSetOff: (n) => setOff === "" || points.labels[n] === setOff,
    ringed: points.items.flatMap((item, n) => (ringed.has(item) ? [n] : [])),
    ringColour: getComputedStyle(document.body).color,
  });
  if (current === null) return;
  const card = byId("map-card");
  const [x, y] = [view.across(points.x[current]), view.down(points.y[current])];
  const left = Math.min(Math.max(x - card.offsetWidth / 2, 4), view.size.width - card.offsetWidth - 4);
  const above = y - card.offsetHeight - 16;
  card.style.transform = `translate(${left}px, ${above > 4 ? above : y + 16}px)`;
}

function pointAt(n) {
  if (n === current || points === null) return;
  current = n;
  byId("map-card").hidden = n === null;
  byId("map").style.cursor = n === null ? "grab" : "pointer";
  if (n !== null) {
    const thumbnail = pictures ? element("img", { src: `/v1/items/${points.items[n]}/thumbnail?side=128`, alt: "", width: 96, height: 96 }) : null;
    thumbnail?.addEventListener("error", () => thumbnail.remove());
    const words = [element("strong", {}, points.labels[n] ?? ""), element("span", {}, shortened(points.ids[n], 22))];
    byId("map-card").replaceChildren(...(thumbnail ? [thumbnail] : []), ...words);
    say("map-point", `${points.labels[n] ?? "no label"}: ${points.ids[n]}, variance ${number(points.var[n])}`);
  } else say("map-point", "");
  refresh();
}

function walk(event) {
  if (points === null) return;
  const zoom = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 }[event.key];
  if (event.key in ARROWS) step(...ARROWS[event.key]);
  else if (zoom) view.zoomBy(zoom);
  else if (event.key === "0") view.whole();
  else if (event.key === "Enter" && current !== null) openPoint(current);
  else return;
  event.preventDefault();
  refresh();
}

function step(right, down) {
  const fromMiddle = (n) => Math.hypot(points.x[n] - view.x, points.y[n] - view.y);
  const middle = () => points.items.reduce((best, _, n) => (fromMiddle(n) < fromMiddle(best) ? n : best), 0);
  const to = current === null ? middle() : towards(points, view, { from: current, right, down });
  if (to === null) return;
  view.show(points.x[to], points.y[to]);
  pointAt(to);
}

const openPoint = (n) => open(points.items[n], points.ids[n]);
