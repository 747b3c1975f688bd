// Tabs (Search, Map, Evaluation) and browser history: every result is a history entry.

import { byId } from "./dom.js";

const NAMES = ["search", "map", "evaluation"];
const HASH = "#view-"; // not an element id: Tab would start behind that element
const MOST_KEPT = 50; // results in memory

const steps = new Map();
let number = 0;
let shown = () => {};

const named = (hash) => NAMES.find((name) => hash === HASH + name);

/** `opened(name)` is called for every opened tab, so that a view can load lazily. */
export function setUpTabs(opened) {
  shown = opened;
  for (const name of NAMES) byId(`tab-${name}`).addEventListener("click", () => openTab(name));
  document.querySelector("[role=tablist]").addEventListener("keydown", walk);
  addEventListener("hashchange", (event) => {
    const name = named(new URL(event.newURL).hash);
    if (name !== undefined) openTab(name);
  });
  openTab(named(location.hash) ?? "search");
}

export function openTab(name) {
  for (const other of NAMES) {
    const tab = byId(`tab-${other}`);
    tab.setAttribute("aria-selected", String(other === name));
    tab.tabIndex = other === name ? 0 : -1;
    byId(`panel-${other}`).hidden = other !== name;
  }
  const hash = name === "search" ? "" : HASH + name;
  history.replaceState(history.state, "", location.pathname + location.search + hash);
  shown(name);
}

export function openedTab() {
  return NAMES.find((name) => !byId(`panel-${name}`).hidden);
}

function walk(event) {
  const at = NAMES.indexOf(openedTab());
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: NAMES.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = NAMES[(to + NAMES.length) % NAMES.length];
  openTab(name);
  byId(`tab-${name}`).focus();
}

/** `back(step)` gets the history entry; only its `item` if the result is no longer in memory; null at the start. */
export function setUpHistory(back) {
  addEventListener("popstate", (event) => {
    number = event.state?.step ?? 0;
    back(steps.get(number) ?? stepOfAddress());
  });
}

/** The item in the page's URL, so that links to it work. */
export function stepOfAddress() {
  const item = new URLSearchParams(location.search).get("item");
  return item === null ? null : { item };
}

export function remember(step, { isNew }) {
  if (isNew) number = Math.max(Date.now(), number + 1); // unique across page loads
  steps.set(number, step);
  if (steps.size > MOST_KEPT) steps.delete(steps.keys().next().value);
  const { item } = step.question;
  const address = item === null ? "/" : `/?item=${encodeURIComponent(item)}`;
  history[isNew ? "pushState" : "replaceState"]({ step: number }, "", address);
}
