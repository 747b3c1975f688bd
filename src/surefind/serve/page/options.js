// How to rank, how many hits, and which images may be hits at all.

import { byId, element, radios, say } from "./dom.js";

const WORDS = { mean: "Mean distance", expected: "Expected distance" };
const COUNTS = [6, 12, 24, 48];
const USUAL = 12;

export function setUpOptions(changed) {
  const form = byId("options");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", changed);
}

export function showOptions(info) {
  const before = document.querySelector("#ranking input:checked")?.value;
  const chosen = info.rankings.includes(before) ? before : info.ranking;
  const own = [info.ranking, ...info.rankings.filter((value) => value !== info.ranking)];
  const choices = own.map((value) => ({ value, words: rankingWords(value) }));
  radios(byId("ranking"), { name: "ranking", choices, chosen });
  const kept = Number(byId("k").value) || USUAL;
  const counts = COUNTS.filter((k) => k <= info.limits.max_k);
  byId("k").replaceChildren(...counts.map((k) => element("option", { value: k, selected: k === kept }, String(k))));
}

export function chosenOptions() {
  return {
    k: Number(byId("k").value) || USUAL,
    ranking: document.querySelector("#ranking input:checked").value,
    where: byId("where").value.split(";").map((condition) => condition.trim()).filter(Boolean),
  };
}

/** Back to the options of an answer that is shown again. */
export function restoreOptions({ k, ranking, where }) {
  byId("k").value = String(k);
  byId("where").value = where.join("; ");
  for (const input of document.querySelectorAll("#ranking input")) input.checked = input.value === ranking;
  refuseFilter(null);
}

/** The server's word on the filter, beside the filter. */
export function refuseFilter(problem) {
  say("where-error", problem === null ? "" : [problem.problem, problem.fix].filter(Boolean).join(": "));
  byId("where").setAttribute("aria-invalid", String(problem !== null));
}

export const rankingWords = (ranking) => WORDS[ranking] ?? ranking;
