// The hits as cards: a picture, how sure, how far, and a way on.

import { byId, element, say } from "./dom.js";
import { many, number, percent, shortened } from "./text.js";

const TAIL = 12;

/** Without pictures to be had, none is asked for. */
export function showHits(answer, { more, pictures }) {
  byId("hits").classList.toggle("bare", !pictures);
  byId("hits").replaceChildren(...answer.hits.map((hit) => card(hit, answer, { more, pictures })));
  say("hits-words", wordsOf(answer));
}

export function clearHits() {
  byId("hits").replaceChildren();
  say("hits-words", "");
}

/** Dims what is below the threshold and moves the mark on every bar; null: there is none. */
export function markHits(threshold) {
  const list = byId("hits");
  list.style.setProperty("--threshold", `${100 * (threshold ?? 0)}%`);
  for (const card of list.children) {
    const { confidence } = card.dataset;
    const below = threshold !== null && confidence !== undefined && Number(confidence) < threshold;
    card.classList.toggle("below", below);
    card.querySelector(".below-words").textContent = below ? "below threshold" : "";
  }
}

/** How many hits to set off; none where there is no promise about them. */
function lookedAt(answer) {
  const isPromised = answer.show === 1 || answer.advice !== null;
  return isPromised && answer.verdict !== "foreign" ? Math.min(answer.show ?? 0, answer.hits.length) : 0;
}

function wordsOf(answer) {
  if (answer.hits.length === 0) return "";
  const hits = many(answer.hits.length, "hit");
  const look = lookedAt(answer);
  if (look === 0) return hits;
  if (look === answer.hits.length && look > 1) return `${hits}, all worth a look`;
  return look === 1 ? `${hits}, the first is worth a look` : `${hits}, the first ${look} are worth a look`;
}

function card(hit, answer, { more, pictures }) {
  const look = hit.rank <= lookedAt(answer);
  const known = hit.confidence !== null;
  const button = element(
    "button", { type: "button", class: "more quiet", "aria-label": `More like ${hit.label ?? hit.id}, hit ${hit.rank}` },
    "More like this",
  );
  button.addEventListener("click", () => more(hit.item, hit.id));
  return element(
    "li", { class: look ? "hit look" : "hit", "data-item": hit.item, "data-confidence": known ? hit.confidence : null },
    element(
      "div", { class: "picture" },
      pictures ? thumbnail(hit) : null,
      element("span", { class: "rank", "aria-hidden": "true" }, String(hit.rank)),
      element("span", { class: "below-words" }),
    ),
    element("p", { class: "hit-label" }, hit.label ?? shortened(hit.id, 24)),
    known ? meter(hit) : null,
    hit.label === null ? null : idLine(hit.id),
    distances(hit),
    button,
  );
}

function meter(hit) {
  const words = percent(hit.confidence);
  const fill = element("span", { class: "fill" });
  fill.style.width = `${100 * hit.confidence}%`;
  return element(
    "div", {
      class: "confidence", role: "meter", "aria-label": "Confidence that this is a match",
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuetext": words,
      "aria-valuenow": Number((100 * hit.confidence).toFixed(2)),
    },
    element("span", { class: "percent" }, words),
    element("span", { class: "bar" }, fill, element("span", { class: "mark" })),
  );
}

/** The middle gives way to the width there is; both ends stay. */
function idLine(id) {
  const letters = Array.from(id);
  const tail = letters.splice(-Math.min(TAIL, letters.length)).join("");
  const head = element("span", { class: "head" }, letters.join(""));
  return element("p", { class: "hit-id", title: id }, head, element("span", {}, tail));
}

function distances(hit) {
  const expected = `expected ${number(hit.expected_distance)} ±\u00a0${number(hit.std, 2)}`;
  return element(
    "p", { class: "hit-distances" },
    element("span", { title: "Squared distance of the two means" }, `distance ${number(hit.distance)}`),
    element("span", { title: "Expected squared distance, and its standard deviation" }, expected),
  );
}

function thumbnail(hit) {
  const picture = element("img", { src: hit.links.thumbnail, alt: hit.label ?? hit.id, loading: "lazy", decoding: "async" });
  picture.addEventListener("error", async () => {
    const place = element("p", { class: "no-picture" }, "No picture");
    picture.replaceWith(place);
    place.textContent = await reason(hit.links.thumbnail);
  });
  return picture;
}

/** An image element does not tell why; the same address, asked as data, does. */
async function reason(address) {
  try {
    const { error } = await (await fetch(address)).json();
    return `No picture: ${error.problem}`;
  } catch {
    return "No picture";
  }
}
