// The gallery as a map: alike images lie near each other.

import { fetched, pause, waitOf } from "./api.js";
import { Camera, setUpGestures } from "./camera.js";
import { byId, element, say } from "./dom.js";
import { hasVariances, mapLegend, showMapChoices } from "./map_legend.js";
import { classColours, varianceColour } from "./palette.js";
import { draw, fit, nearest, towards } from "./scatter.js";
import { number, sentence, shortened } from "./text.js";

const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const UNLABELLED = "#8a94a0";

const camera = new Camera();
let points = null;
let loading = false;
let colours = [];
let current = null;
let ringed = new Set(); // items of the answer on the page
let pictures = false;
let open = () => {};

export function setUpMap({ open: opened }) {
  open = opened;
  const canvas = byId("map");
  setUpGestures(canvas, camera, {
    moved: () => { canvas.style.touchAction = camera.zoom > 1 ? "none" : "pan-y"; refresh(); },
    hovered: (place) => pointAt(place === null ? null : nearest(points, camera, place)),
    clicked: (place) => { const n = nearest(points, camera, place); if (n !== null) openPoint(n); },
  });
  canvas.addEventListener("keydown", walk);
  canvas.addEventListener("blur", () => pointAt(null));
  const zoomed = (factor) => () => { camera.zoomBy(factor); refresh(); };
  byId("map-in").addEventListener("click", zoomed(1.5));
  byId("map-out").addEventListener("click", zoomed(1 / 1.5));
  byId("map-whole").addEventListener("click", () => { camera.whole(); refresh(); });
  byId("map-class").addEventListener("change", refresh);
  byId("map-colour").addEventListener("change", recolour);
  new ResizeObserver(() => { if (points) { fit(canvas, camera); refresh(); } }).observe(byId("map-box"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
}

/** Fetches the map when it is first seen, and waits while the server still makes it. */
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
    showMapChoices(points);
    camera.frame(points.x, points.y);
    fit(byId("map"), camera);
    recolour();
  } catch (failure) {
    say("map-words", [failure.problem ?? "The map could not be drawn.", failure.fix].filter(Boolean).join(" "));
  } finally {
    loading = false;
    byId("map-words").setAttribute("aria-busy", "false");
  }
}

/** Another version of the index has another map. */
export function forgetMap(info) {
  points = null;
  current = null;
  pictures = info.pictures;
  for (const id of ["map-bar", "map-box"]) byId(id).hidden = true;
  byId("map-legend").replaceChildren();
  say("map-words", info.images === 0 ? "There is nothing to draw yet: this index has no images." : "Asking for the map");
}

export function markOnMap(answer) {
  ringed = new Set(answer.hits.map((hit) => hit.item));
  if (answer.query.item !== null) ringed.add(answer.query.item);
  refresh();
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

const chosenColour = () => document.querySelector("#map-colour input:checked")?.value ?? "class";

function recolour() {
  const range = hasVariances(points);
  if (chosenColour() === "variance") colours = points.var.map((variance) => varianceColour(variance, range));
  else {
    const ofClass = classColours(points.labels.filter((label) => label !== null));
    colours = points.labels.map((label) => ofClass.get(label) ?? UNLABELLED);
  }
  byId("map-legend").replaceChildren(...mapLegend(points, { by: chosenColour(), range }));
  refresh();
}

function refresh() {
  if (points === null) return;
  const setOff = byId("map-class").value;
  draw(byId("map"), points, camera, {
    colours, current,
    isSetOff: (n) => setOff === "" || points.labels[n] === setOff,
    ringed: points.items.flatMap((item, n) => (ringed.has(item) ? [n] : [])),
    ringColour: getComputedStyle(document.body).color,
  });
  placeCard();
}

function pointAt(n) {
  if (n === current || points === null) return;
  current = n;
  const card = byId("map-card");
  card.hidden = n === null;
  byId("map").style.cursor = n === null ? "grab" : "pointer";
  if (n !== null) {
    const words = [element("strong", {}, points.labels[n] ?? ""), element("span", {}, shortened(points.ids[n], 22))];
    card.replaceChildren(...pictureOf(n), ...words);
    say("map-point", `${points.labels[n] ?? "no label"}: ${points.ids[n]}, variance ${number(points.var[n])}`);
  } else say("map-point", "");
  refresh();
}

function pictureOf(n) {
  if (!pictures) return [];
  const thumbnail = element("img", { src: `/v1/items/${points.items[n]}/thumbnail?side=128`, alt: "", width: 96, height: 96 });
  thumbnail.addEventListener("error", () => thumbnail.remove());
  return [thumbnail];
}

function placeCard() {
  if (current === null) return;
  const card = byId("map-card");
  const [x, y] = [camera.across(points.x[current]), camera.down(points.y[current])];
  const left = Math.min(Math.max(x - card.offsetWidth / 2, 4), camera.size.width - card.offsetWidth - 4);
  const above = y - card.offsetHeight - 16;
  card.style.transform = `translate(${left}px, ${above > 4 ? above : y + 16}px)`;
}

function walk(event) {
  if (points === null) return;
  const zoom = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 }[event.key];
  if (event.key in ARROWS) step(...ARROWS[event.key]);
  else if (zoom) camera.zoomBy(zoom);
  else if (event.key === "0") camera.whole();
  else if (event.key === "Enter" && current !== null) openPoint(current);
  else return;
  event.preventDefault();
  refresh();
}

function step(right, down) {
  const middle = () => points.items.reduce((best, _, n) => (fromMiddle(n) < fromMiddle(best) ? n : best), 0);
  const to = current === null ? middle() : towards(points, camera, { from: current, right, down });
  if (to === null) return;
  camera.show(points.x[to], points.y[to]);
  pointAt(to);
}

const fromMiddle = (n) => Math.hypot(points.x[n] - camera.x, points.y[n] - camera.y);

const openPoint = (n) => open(points.items[n], points.ids[n]);
