// The band that says what to think of the answer.

import { byId, codeBox, drawn, element, unbroken } from "./dom.js";
import { rankingWords } from "./options.js";
import { percent, sentence } from "./text.js";

const WORDS = { match: "Match", unsure: "Unsure", foreign: "Foreign: nothing here matches", none: "Not calibrated" };
const ICONS = {
  match: ["M12 25l8 8 16-18"],
  unsure: ["M17 18a7 7 0 1 1 10.5 6c-2.3 1.4-3.5 2.7-3.5 5.5", "M24 36v.5"],
  foreign: ["M14 19h20M14 29h20M30 11L18 37"],
  none: ["M13 24h22"],
};

export function showVerdict(answer, info, { rankAs }) {
  const verdict = answer.hits.length ? answer.verdict ?? "none" : "none";
  const band = byId("verdict");
  band.dataset.verdict = verdict;
  const said = saidOf(answer, info, rankAs);
  band.replaceChildren(
    icon(verdict),
    element("div", { class: "verdict-words" }, element("h2", {}, said.title ?? WORDS[verdict]), ...said.lines),
    ...(said.beside ? [said.beside] : []),
  );
}

export function clearVerdict() {
  const band = byId("verdict");
  band.dataset.verdict = "none";
  band.replaceChildren();
}

function saidOf(answer, info, rankAs) {
  if (answer.hits.length === 0) {
    return { title: "Nothing found", lines: [line("No image of the index meets the filter. Loosen it, or empty it.")] };
  }
  return answer.verdict === null ? withoutConfidence(answer, info, rankAs) : withConfidence(answer);
}

const line = (words, kind = "verdict-sentence") => element("p", { class: kind }, ...unbroken(words));

function withConfidence(answer) {
  const lines = [line(sentence(answer.sentence))];
  if (answer.advice) lines.push(line(sentence(answer.advice), "verdict-advice"));
  if (answer.calibrated) lines.push(line(`Rests on the calibration of ${answer.calibrated}.`, "small"));
  if (answer.verdict === "foreign") {
    lines.push(line("The bars below are for pictures that do belong here.", "small"));
    return { lines };
  }
  const beside = answer.confidence === null ? null : element(
    "p", { class: "verdict-number" },
    element("strong", {}, percent(answer.confidence)),
    element("span", {}, "that the first hit is a match"),
  );
  return { lines, beside };
}

function withoutConfidence(answer, info, rankAs) {
  if (info.calibration === null) {
    return {
      lines: [
        line("These are the nearest images, nearest first."),
        line("There are no percentages until the index is calibrated with labelled images:"),
        codeBox(info.how_to_calibrate),
      ],
    };
  }
  const why = answer.uncalibrated ?? "there is no confidence for this answer";
  const lines = [line(sentence(why))];
  if (answer.ranking !== info.ranking) lines.push(back(info.ranking, rankAs));
  return { title: "No confidence", lines };
}

function back(ranking, rankAs) {
  const words = `Rank by ${rankingWords(ranking).toLowerCase()}`;
  const button = element("button", { type: "button", class: "quiet", id: "rank-back" }, words);
  button.addEventListener("click", () => rankAs(ranking));
  return button;
}

function icon(verdict) {
  return drawn(
    "svg", { class: "verdict-icon", viewBox: "0 0 48 48", "aria-hidden": "true" },
    drawn("circle", { cx: 24, cy: 24, r: 24 }),
    ...ICONS[verdict].map((d) => drawn("path", { d })),
  );
}
