// Search results: the verdict, the label and the hits, for any threshold.

import { bar, button, byId, codeBox, drawn, element, say, unbroken } from "./dom.js";
import { count, exact, many, number, percent, sentence, shortened } from "./text.js";

const VERDICTS = { match: "Match", unsure: "Unsure", no_match: "No match: not in the catalogue", none: "Not calibrated" };
const ICONS = {
  match: ["M12 25l8 8 16-18"],
  unsure: ["M17 18a7 7 0 1 1 10.5 6c-2.3 1.4-3.5 2.7-3.5 5.5", "M24 36v.5"],
  no_match: ["M14 19h20M14 29h20M30 11L18 37"],
  none: ["M13 24h22"],
};
const RANKINGS = { confidence: "Confidence", mean: "Mean distance", expected: "Expected distance" };
const TAIL = 12; // last characters of an id, always visible
const MOST_LABELS = 5; // of an unsure answer
const LONGEST_LABEL = 60;

export const rankingWords = (ranking) => RANKINGS[ranking] ?? ranking;
export const rankingsInOrder = (rankings) => Object.keys(RANKINGS).filter((ranking) => rankings.includes(ranking));

let shown = null; // the result, the index, and what starts another search

/** Show the hits of a search; `judgeAt` shows the verdict. `more(item, name)` and `rankAs(ranking)` start another search. */
export function showAnswer(answer, info, { filtered, more, rankAs }) {
  shown = { answer, info, filtered, rankAs };
  const order = answer.ranking === "confidence" && answer.verdict !== null ? "most confident first" : "nearest first";
  byId("hits").setAttribute("aria-label", `Hits, ${order}`);
  byId("hits").classList.toggle("bare", !info.pictures);
  byId("hits").replaceChildren(...answer.hits.map((hit) => card(hit, answer, { more, pictures: info.pictures })));
}

/** Show verdict, bars and marks of the hits for a threshold; null: no threshold. */
export function judgeAt(threshold) {
  if (shown === null) return;
  const { answer } = shown;
  const verdict = answer.hits.length ? verdictAt(answer, threshold) ?? "none" : "none";
  const judged = { ...shown, answer: { ...answer, verdict: answer.verdict && verdict }, threshold };
  showVerdict(verdict, saidOf(judged));
  say("hits-words", hitsWords(judged.answer));
  const list = byId("hits");
  list.style.setProperty("--threshold", `${100 * (threshold ?? 0)}%`);
  for (const [place, card] of Array.from(list.children).entries()) {
    const hit = answer.hits[place];
    const below = threshold !== null && hit.confidence !== null && hit.confidence < threshold;
    card.classList.toggle("look", isWorthALook(hit, judged.answer));
    card.classList.toggle("below", below);
    card.querySelector(".below-words").textContent = below ? "below threshold" : "";
  }
}

export function clearAnswer() {
  shown = null;
  byId("verdict").dataset.verdict = "none";
  for (const id of ["verdict", "hits", "hits-words"]) byId(id).replaceChildren();
}

/** The verdict with another threshold; a query that is not in the catalogue is so with any. */
function verdictAt(answer, threshold) {
  if (threshold === null || answer.verdict === null || answer.verdict === "no_match" || threshold === startOf(shown.info)) {
    return answer.verdict;
  }
  return surest(answer) >= threshold ? "match" : "unsure";
}

const startOf = (info) => info.calibration?.match_threshold ?? null;

function showVerdict(verdict, said) {
  byId("verdict").dataset.verdict = verdict;
  byId("verdict").replaceChildren(
    drawn(
      "svg", { class: "verdict-icon", viewBox: "0 0 48 48", "aria-hidden": "true" },
      drawn("circle", { cx: 24, cy: 24, r: 24 }),
      ...ICONS[verdict].map((d) => drawn("path", { d })),
    ),
    element("div", { class: "verdict-words" }, said.kind, element("h2", {}, ...(said.title ?? [VERDICTS[verdict]])), ...said.lines),
    ...(said.beside ? [said.beside] : []),
  );
}

const line = (words, kind = "verdict-sentence") => element("p", { class: kind }, ...unbroken(words));

function saidOf({ answer, info, filtered, rankAs, threshold }) {
  if (answer.hits.length === 0) {
    return { title: ["Nothing found"], lines: [line("No indexed image matches the filter. Change or clear it.")] };
  }
  if (answer.verdict === "no_match") return { lines: [line(sentence(answer.sentence)), ...calibrationLine(answer)] };
  if (answer.verdict !== null && info.calibration !== null) {
    const guaranteed = answer.guaranteed && threshold === startOf(info);
    return answer.label === null ? withConfidence(answer, info, { threshold, guaranteed }) : withLabel(answer, { threshold, guaranteed });
  }
  if (info.calibration === null) {
    return {
      lines: [
        line("These are the nearest images, nearest first."),
        line("Confidence needs a calibration with labelled images:"),
        codeBox(info.how_to_calibrate),
      ],
    };
  }
  const reason = filtered ? "Confidence is not available for filtered searches yet." : answer.uncalibrated;
  const lines = [line(sentence(reason ?? "there is no confidence for this search"))];
  if (answer.ranking !== info.ranking) {
    const words = `Rank by ${rankingWords(info.ranking).toLowerCase()}`;
    lines.push(button({ class: "quiet", id: "rank-back" }, () => rankAs(info.ranking), words));
  }
  return { title: ["No confidence"], lines };
}

/** The label answer: one label, or one of several. */
function withLabel(answer, { threshold, guaranteed }) {
  const kind = element("p", { class: "verdict-kind" }, VERDICTS[answer.verdict], answer.verdict === "match" && !guaranteed ? " · not guaranteed" : "");
  const own = [labelName(answer.label), ...unbroken(`, ${percent(answer.label_confidence)}`)];
  const lines = [line(comparison(answer, threshold, "probability of this label")), ...calibrationLine(answer)];
  if (answer.verdict === "match") return { kind, title: own, lines };
  if (answer.label_set.length < 2) return { kind, title: ["Perhaps ", ...own], lines };
  lines[0] = line(`No label reaches the threshold of ${exact(threshold)}.`);
  return { kind, title: ["One of these"], lines: [labelBars(answer), ...lines] };
}

function comparison(answer, threshold, what) {
  if (surest(answer) === 1) return "An identical image is in the index: a match by definition.";
  return `The ${what} ${answer.verdict === "match" ? "reaches" : "is below"} the threshold of ${exact(threshold)}.`;
}

/** The most probable labels of the set, each with its probability. */
function labelBars({ labels, label_set: set }) {
  const rows = set.slice(0, MOST_LABELS).map((label) => element(
    "li", {}, labelName(label), bar(labels[label]), element("span", { class: "percent" }, percent(labels[label])),
  ));
  const more = set.length - rows.length;
  const last = more > 0 ? element("li", { class: "more-labels" }, `and ${count(more)} more`) : null;
  return element("ol", { class: "label-bars", "aria-label": "Probable labels" }, ...rows, last);
}

/** A label is written in any direction, and may be long. */
const labelName = (label) => {
  const short = shortened(label, LONGEST_LABEL);
  return element("bdi", { title: short === label ? null : label }, short);
};

const calibrationLine = ({ calibrated }) => (calibrated ? [line(`Calibration: ${calibrated}.`, "small")] : []);

function withConfidence(answer, info, { threshold, guaranteed }) {
  const [sure, lines] = [surest(answer), calibrationLine(answer)];
  if (answer.advice) lines.unshift(line(sentence(answer.advice), "verdict-advice"));
  if (info.calibration.origin.evidence !== "neighbourhoods") lines.unshift(line("None of the nearest images has a label."));
  if (sure === null) return { lines };
  const not = answer.verdict === "match" && !guaranteed ? " Not guaranteed." : "";
  lines.unshift(line(comparison(answer, threshold, "confidence") + not));
  const which = sure === answer.confidence ? "first" : "surest";
  const beside = element(
    "p", { class: "verdict-number" },
    element("strong", {}, percent(sure)),
    element("span", {}, `confidence of the ${which} hit`),
  );
  return { lines, beside };
}

/** The confidence that the verdict rests on, whatever the order of the hits; null if unknown. */
export function surest(answer) {
  if (answer.label_confidence !== null) return answer.label_confidence;
  const known = answer.hits.map((hit) => hit.confidence).filter((confidence) => confidence !== null);
  return known.length ? Math.max(...known) : null;
}

/** Labels of the hits worth a look; null if the answer is not by labels. */
function labelsLookedAt({ label, label_set: set, verdict }) {
  if (label === null || verdict === null) return null;
  if (verdict === "no_match") return [];
  return verdict === "match" ? [label] : set;
}

/** Number of hits in the prediction set; 0 without a guarantee. */
function lookedAt(answer) {
  const isGuaranteed = answer.show === 1 || answer.advice !== null;
  return isGuaranteed && answer.verdict !== "no_match" ? Math.min(answer.show ?? 0, answer.hits.length) : 0;
}

function hitsWords(answer) {
  if (answer.hits.length === 0) return "";
  const hits = many(answer.hits.length, "hit");
  if (answer.verdict === "no_match") return `${hits}: the most similar images, but no match`;
  const labels = labelsLookedAt(answer);
  if (labels !== null) {
    const found = answer.hits.filter((hit) => labels.includes(hit.label)).length;
    const amount = found > 1 && found === answer.hits.length ? "all" : count(found);
    return found === 0 ? hits : `${hits}, ${amount} with ${labels.length === 1 ? "this label" : "these labels"}`;
  }
  const look = lookedAt(answer);
  if (look === 0) return hits;
  if (look === answer.hits.length && look > 1) return `${hits}, all worth a look`;
  return look === 1 ? `${hits}, the first is worth a look` : `${hits}, the first ${look} are worth a look`;
}

const isWorthALook = (hit, answer) => labelsLookedAt(answer)?.includes(hit.label) ?? hit.rank <= lookedAt(answer);

function card(hit, answer, { more, pictures }) {
  // A confidence assumes that the query is in the catalogue.
  const known = hit.confidence !== null && answer.verdict !== "no_match";
  const label = `More like ${hit.label ?? hit.id}, hit ${hit.rank}`;
  const again = button({ class: "more quiet", "aria-label": label }, () => more(hit.item, hit.id), "More like this");
  const expected = `expected ${number(hit.expected_distance)} ±\u00a0${number(hit.std, 2)}`;
  return element(
    "li", { class: "hit", "data-item": hit.item },
    element(
      "div", { class: "picture" },
      pictures ? thumbnail(hit) : null,
      element("span", { class: "rank", "aria-hidden": "true" }, String(hit.rank)),
      element("span", { class: "below-words" }),
    ),
    element("p", { class: "hit-label" }, hit.label === null ? shortened(hit.id, 24) : labelName(hit.label)),
    known ? meter(hit) : null,
    hit.label === null ? null : idLine(hit.id),
    element(
      "p", { class: "hit-distances" },
      element("span", { title: "Squared distance of the two means" }, `distance ${number(hit.distance)}`),
      element("span", { title: "Expected squared distance, and its standard deviation" }, expected),
    ),
    again,
  );
}

function meter(hit) {
  const words = percent(hit.confidence);
  return element(
    "div", {
      class: "confidence", role: "meter", "aria-label": "Confidence that this is a match",
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuetext": words,
      "aria-valuenow": Number((100 * hit.confidence).toFixed(2)),
    },
    element("span", { class: "percent" }, words),
    bar(hit.confidence, element("span", { class: "mark" })),
  );
}

/** An id whose middle is cut to fit the width; both ends stay visible. */
function idLine(id) {
  const letters = Array.from(id);
  const tail = letters.splice(-Math.min(TAIL, letters.length)).join("");
  const head = element("span", { class: "head" }, letters.join(""));
  return element("p", { class: "hit-id", title: id }, head, element("span", {}, tail));
}

function thumbnail(hit) {
  const picture = element("img", { src: hit.links.thumbnail, alt: hit.label ?? hit.id, loading: "lazy", decoding: "async" });
  picture.addEventListener("error", async () => {
    const place = element("p", { class: "no-picture" }, "No picture");
    picture.replaceWith(place);
    try {
      // An image element gives no reason; the JSON error of the same URL does.
      const { error } = await (await fetch(hit.links.thumbnail)).json();
      place.textContent = `No picture: ${error.problem}`;
    } catch { /* keep the short text */ }
  });
  return picture;
}
