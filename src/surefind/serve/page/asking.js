// One question at a time: a newer one calls the older off.

import { askedFor } from "./api.js";
import { hideProgress, showProgress } from "./notices.js";
import { byId } from "./dom.js";
import { shortened } from "./text.js";

let running = null;

/** The answer, or null if it was called off meanwhile. Raises Problem. */
export async function answered(question, options) {
  callOff();
  const mine = new AbortController();
  running = mine;
  begin(question);
  try {
    const busy = (seconds, attempt, most) => showProgress(
      `The server is busy: asking again in ${seconds} s (${attempt} of ${most})`,
    );
    const answer = await askedFor(question, options, { signal: mine.signal, busy });
    return running === mine ? answer : null;
  } catch (failure) {
    if (mine.signal.aborted) return null;
    throw failure;
  } finally {
    if (running === mine) end();
  }
}

export function callOff() {
  running?.abort();
  if (running !== null) end();
}

function begin(question) {
  showProgress(`Searching with ${shortened(question.name)}`);
  byId("answer").setAttribute("aria-busy", "true");
}

function end() {
  running = null;
  hideProgress();
  byId("answer").setAttribute("aria-busy", "false");
}
