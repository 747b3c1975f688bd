// What went wrong, what the index warns of, and what is going on.

import { byId, element, say } from "./dom.js";
import { sentence } from "./text.js";

/** A problem with what to do about it; `again` puts a button beside it. */
export function showProblem({ problem, fix }, again = null) {
  const lines = [element("p", {}, element("strong", {}, sentence(problem)))];
  if (fix) lines.push(element("p", {}, sentence(fix)));
  const buttons = again === null ? [] : [retryButton(again)];
  byId("error").replaceChildren(element("div", {}, ...lines), ...buttons);
}

export function clearProblem() {
  byId("error").replaceChildren();
}

export function showWarnings(warnings) {
  byId("warnings").replaceChildren(...warnings.map((words) => {
    const close = element("button", { type: "button", class: "quiet dismiss", "aria-label": "Dismiss this warning" }, "×");
    const row = element("li", {}, element("span", {}, sentence(words)), close);
    close.addEventListener("click", () => row.remove());
    return row;
  }));
}

export function showProgress(words) {
  say("progress-words", words);
  byId("progress").hidden = false;
}

export function hideProgress() {
  byId("progress").hidden = true;
}

function retryButton(again) {
  const button = element("button", { type: "button", class: "primary", id: "retry" }, "Try again");
  button.addEventListener("click", again);
  return button;
}
