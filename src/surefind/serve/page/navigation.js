// Tabs (Search, Map, Evaluation), and the browser's history: every answer is a step, so that Back returns to it.

import { byId } from "./dom.js";

const NAMES = ["search", "map", "evaluation"];
const HASH = "#view-"; // no id: Tab would start behind the element that has it
const MOST_KEPT = 50; // pictures of old answers are let go

const steps = new Map();
let number = 0;
let shown = () => {};

const named = (hash) => NAMES.find((name) => hash === HASH + name);

/** `opened(name)` hears of every tab, so that a view can load what it needs when it is first seen. */
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

/** `back(step)` gets the step gone to; with `item` only where the answer is not kept any more; null at the start. */
export function setUpHistory(back) {
  addEventListener("popstate", (event) => {
    number = event.state?.step ?? 0;
    back(steps.get(number) ?? stepOfAddress());
  });
}

/** The image an address asks for, so that links to it work. */
export function stepOfAddress() {
  const item = new URLSearchParams(location.search).get("item");
  return item === null ? null : { item };
}

export function remember(step, { isNew }) {
  if (isNew) number = Math.max(Date.now(), number + 1); // never a number of a page loaded earlier
  steps.set(number, step);
  if (steps.size > MOST_KEPT) steps.delete(steps.keys().next().value);
  const { item } = step.question;
  const address = item === null ? "/" : `/?item=${encodeURIComponent(item)}`;
  history[isNew ? "pushState" : "replaceState"]({ step: number }, "", address);
}
