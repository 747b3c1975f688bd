// Search | Map | Evaluation: one view at a time, walked with the arrow keys.

import { byId } from "./dom.js";

const NAMES = ["search", "map", "evaluation"];
const HASH = "#view-"; // no id: Tab would start behind the element that has it

/** `shown(name)` hears of every change, so that a view can load what it needs when it is first seen. */
export function setUpTabs(shown) {
  for (const name of NAMES) {
    byId(`tab-${name}`).addEventListener("click", () => openTab(name, shown));
  }
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => walk(event, shown));
  addEventListener("hashchange", (event) => {
    const name = named(new URL(event.newURL).hash);
    if (name !== undefined) openTab(name, shown);
  });
  openTab(named(location.hash) ?? "search", shown);
}

const named = (hash) => NAMES.find((name) => hash === HASH + name);

export function openTab(name, shown = () => {}) {
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

function walk(event, shown) {
  const at = NAMES.indexOf(openedTab());
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: NAMES.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = NAMES[(to + NAMES.length) % NAMES.length];
  openTab(name, shown);
  byId(`tab-${name}`).focus();
}
