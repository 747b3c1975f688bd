// The query: ways to choose an image, the image shown, and the search options.

import { button, byId, element, radios, say } from "./dom.js";
import { rankingWords, rankingsInOrder } from "./answer.js";
import { bytes, count, shortened } from "./text.js";

const COUNTS = [6, 12, 24, 48];
const USUAL = 12;

let shownUrl = null;

/** A query is a file to upload, a sample to fetch first, or an indexed item. */
const ofFile = (file) => ({ name: file.name || "pasted picture", file, image: null, item: null, picture: null });

export const ofItem = (item, name) => ({
  name, file: null, image: null, item, picture: `/v1/items/${encodeURIComponent(item)}/thumbnail?side=512`,
});

const ofSample = ({ name, image, item }) => (
  item === null ? { name, file: null, image, item, picture: image } : ofItem(item, name)
);

const takesImages = () => !byId("file").disabled;

/** Drop, paste or choose a file; `changed()` is called when the options change. */
export function setUpQuestion({ ask, refuse, changed }) {
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files.length) ask(ofFile(input.files[0]));
    input.value = ""; // so that the same file can be chosen again
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (file && takesImages()) ask(ofFile(file));
  });
  const over = (is) => document.body.classList.toggle("dragging", is && takesImages());
  addEventListener("dragover", (event) => {
    event.preventDefault(); // otherwise a drop outside the zone would open the file
    over(Array.from(event.dataTransfer?.types ?? []).includes("Files"));
  });
  addEventListener("dragleave", (event) => { if (event.relatedTarget === null) over(false); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const [file] = event.dataTransfer?.files ?? [];
    if (!takesImages()) return;
    if (file) ask(ofFile(file));
    else refuse({ problem: "Only image files can be dropped.", fix: "Save the picture, then drop the file." });
  });
  byId("options").addEventListener("submit", (event) => event.preventDefault());
  byId("options").addEventListener("change", changed);
}

/** Show upload limits, samples and ranking choices of the index. */
export function learnQuestion(info, ask) {
  const can = info.takes_images && info.images > 0;
  byId("drop").hidden = !can;
  byId("file").disabled = !can;
  say("drop-limits", `${info.limits.formats.join(", ")}, up to ${bytes(info.limits.max_bytes)}`);
  say("samples-words", can ? "Or try one of these" : "Search with one of these");
  byId("samples").hidden = info.samples.length === 0;
  byId("sample-list").replaceChildren(...info.samples.map((sample) => sampleButton(sample, { ask, pictures: info.pictures })));
  const before = document.querySelector("#ranking input:checked")?.value;
  const own = [info.ranking, ...rankingsInOrder(info.rankings).filter((value) => value !== info.ranking)];
  radios(byId("ranking"), {
    name: "ranking", choices: own.map((value) => ({ value, words: rankingWords(value) })),
    chosen: info.rankings.includes(before) ? before : info.ranking,
  });
  const kept = Number(byId("k").value) || USUAL;
  const counts = COUNTS.filter((k) => k <= info.limits.max_k);
  byId("k").replaceChildren(...counts.map((k) => element("option", { value: k, selected: k === kept }, String(k))));
}

/** The problem with a file above the size limit, else null; checked before the upload. */
export function tooLarge(question, limits) {
  if (!question.file || question.file.size <= limits.max_bytes) return null;
  return {
    problem: `${shortened(question.name)} is ${bytes(question.file.size)}; the limit is ${bytes(limits.max_bytes)}.`,
    fix: "Resize it: 1,000 pixels per side are enough.",
  };
}

function sampleButton(sample, { ask, pictures }) {
  const hasPicture = pictures || sample.item === null;
  const picture = element("img", { src: hasPicture ? sample.thumbnail : null, alt: "", width: 72, height: 72, loading: "lazy" });
  picture.addEventListener("error", () => picture.replaceWith(element("span", { class: "no-picture" }, shortened(sample.name, 12))));
  const attributes = {
    class: hasPicture ? "sample" : "sample named", title: sample.name,
    "aria-label": `Search with ${sample.name}`, "data-sample": sample.name,
  };
  return element("li", {}, button(attributes, () => ask(ofSample(sample)), hasPicture ? picture : shortened(sample.name, 24)));
}

export function showQuestion(question, info) {
  byId("asked").hidden = question === null;
  document.body.classList.toggle("has-question", question !== null);
  if (shownUrl !== null) URL.revokeObjectURL(shownUrl);
  shownUrl = question?.file ? URL.createObjectURL(question.file) : null;
  if (question === null) return;
  const hasPicture = question.item === null || info.pictures;
  byId("asked-picture").hidden = !hasPicture;
  byId("asked-picture").replaceChildren();
  if (hasPicture) {
    const picture = element("img", { src: shownUrl ?? question.picture, alt: `Query image: ${question.name}` });
    // Browsers cannot draw TIFF or broken files; the server may still decode them.
    picture.addEventListener("error", () => picture.replaceWith(element("p", { class: "no-picture" }, question.name)));
    byId("asked-picture").append(picture);
  }
  byId("asked-name").textContent = shortened(question.name, 34);
  byId("asked-name").title = question.name;
  say("asked-facts", question.item === null && question.file ? bytes(question.file.size) : "");
}

/** Show size and timing of the query. */
export function showFacts(answer) {
  const { width, height, bytes: size } = answer.query;
  const facts = [];
  if (width) facts.push(`${count(width)} × ${count(height)}`);
  if (size) facts.push(bytes(size));
  if (answer.query.item) facts.push("indexed image");
  facts.push(`answered in ${Math.max(1, Math.round(1000 * answer.seconds.total))}\u00a0ms`);
  say("asked-facts", facts.join(" · "));
}

export function chosenOptions() {
  return {
    k: Number(byId("k").value) || USUAL,
    ranking: document.querySelector("#ranking input:checked").value,
    where: byId("where").value.split(";").map((condition) => condition.trim()).filter(Boolean),
  };
}

/** Set the options of the result that is shown. */
export function restoreOptions({ k, ranking, where }) {
  byId("k").value = String(k);
  byId("where").value = where.join("; ");
  for (const input of document.querySelectorAll("#ranking input")) input.checked = input.value === ranking;
  refuseFilter(null);
}

/** Show the server's error beside the filter; null clears it. */
export function refuseFilter(problem) {
  say("where-error", problem === null ? "" : [problem.problem, problem.fix].filter(Boolean).join(": "));
  byId("where").setAttribute("aria-invalid", String(problem !== null));
}
