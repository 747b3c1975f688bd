// What the colours of the map mean, and which of them to choose from.

import { byId, drawn, element, radios } from "./dom.js";
import { between, classColours } from "./palette.js";
import { number } from "./text.js";

const MOST_NAMED = 40;

/** The least and the most variance, or null where they are all the same. */
export function hasVariances(points) {
  const low = points.var.reduce((least, variance) => Math.min(least, variance), Infinity);
  const high = points.var.reduce((most, variance) => Math.max(most, variance), -Infinity);
  return low > 0 && high > low * 1.0001 ? { low, high } : null;
}

export function showMapChoices(points) {
  const names = namesOf(points);
  const choices = [];
  if (names.length) choices.push({ value: "class", words: "Class" });
  if (hasVariances(points)) choices.push({ value: "variance", words: "Uncertainty" });
  radios(byId("map-colour"), { name: "map-colour", choices, chosen: choices[0]?.value });
  byId("map-colour").hidden = choices.length < 2;
  const select = byId("map-class");
  const option = (value, words) => element("option", { value }, words);
  select.replaceChildren(option("", "all classes"), ...names.map((name) => option(name, name)));
  select.parentElement.hidden = names.length === 0;
}

export function mapLegend(points, { by, range }) {
  if (by === "variance" && range !== null) {
    return [element("span", {}, `surer ${number(range.low)}`), ramp(), element("span", {}, `${number(range.high)} less sure`)];
  }
  const colours = classColours(namesOf(points));
  if (colours.size === 0) return [];
  if (colours.size > MOST_NAMED) return [element("span", {}, `${colours.size} classes, each of its own hue`)];
  return [...colours].map(([name, colour]) => legendButton(name, colour));
}

/** A name of the legend sets its class off, and a second press lets it go. */
function legendButton(name, colour) {
  const swatch = element("span", { class: "swatch" });
  swatch.style.backgroundColor = colour;
  const button = element("button", { type: "button", class: "legend-name" }, swatch, name);
  button.addEventListener("click", () => {
    const select = byId("map-class");
    select.value = select.value === name ? "" : name;
    select.dispatchEvent(new Event("change"));
  });
  return button;
}

const namesOf = (points) => [...new Set(points.labels.filter((label) => label !== null))].sort();

function ramp() {
  const step = (_, n) => drawn("rect", { x: n * 8, y: 0, width: 8.5, height: 12, fill: between(n / 23) });
  const steps = Array.from({ length: 24 }, step);
  return drawn("svg", { class: "ramp", viewBox: "0 0 192 12", width: 192, height: 12, "aria-hidden": "true" }, ...steps);
}
