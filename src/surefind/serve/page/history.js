// Every answer is a step, so that Back returns to the one before.

const MOST_KEPT = 50; // pictures of old answers are let go

const steps = new Map();
let number = 0;

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
