// Four ways to ask with a picture: drop it, paste it, choose it, or take one of the samples.

import { byId, element, say } from "./dom.js";
import { bytes, shortened } from "./text.js";

/** A question is a file to send, a sample to fetch first, or an item of the gallery. */
export const ofFile = (file) => ({ name: file.name || "pasted picture", file, image: null, item: null, picture: null });

export const ofItem = (item, name) => ({
  name, file: null, image: null, item, picture: `/v1/items/${encodeURIComponent(item)}/thumbnail?side=512`,
});

const ofSample = ({ name, image, item }) => (
  item === null ? { name, file: null, image, item, picture: image } : ofItem(item, name)
);

export function setUpAsking({ ask, refuse }) {
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files.length) ask(ofFile(input.files[0]));
    input.value = ""; // so that the same file can be chosen again
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (file && takesImages()) ask(ofFile(file));
  });
  setUpDropping({ ask, refuse });
}

/** Says what may be sent, and lays out the samples. */
export function showAsking(info, ask) {
  const can = info.takes_images && info.images > 0;
  byId("drop").hidden = !can;
  byId("file").disabled = !can;
  say("drop-limits", `${info.limits.formats.join(", ")}, up to ${bytes(info.limits.max_bytes)}`);
  say("samples-words", can ? "Or try one of these" : "Ask with one of these");
  byId("samples").hidden = info.samples.length === 0;
  byId("sample-list").replaceChildren(...info.samples.map((sample) => sampleButton(sample, { ask, pictures: info.pictures })));
}

/** Too large is known before anything is sent. */
export function tooLarge(question, limits) {
  if (!question.file || question.file.size <= limits.max_bytes) return null;
  return {
    problem: `${shortened(question.name)} has ${bytes(question.file.size)}; this server takes up to ${bytes(limits.max_bytes)}.`,
    fix: "Save it smaller: 1,000 pixels a side are plenty to search with.",
  };
}

function sampleButton(sample, { ask, pictures }) {
  const hasPicture = pictures || sample.item === null;
  const button = element(
    "button", {
      type: "button", class: hasPicture ? "sample" : "sample named", title: sample.name,
      "aria-label": `Search with ${sample.name}`, "data-sample": sample.name,
    },
    hasPicture ? samplePicture(sample) : shortened(sample.name, 24),
  );
  button.addEventListener("click", () => ask(ofSample(sample)));
  return element("li", {}, button);
}

function samplePicture({ name, thumbnail }) {
  const picture = element("img", { src: thumbnail, alt: "", width: 72, height: 72, loading: "lazy" });
  picture.addEventListener("error", () => picture.replaceWith(element("span", { class: "no-picture" }, shortened(name, 12))));
  return picture;
}

const takesImages = () => !byId("file").disabled;

function setUpDropping({ ask, refuse }) {
  const holdsFiles = (event) => Array.from(event.dataTransfer?.types ?? []).includes("Files");
  const over = (is) => document.body.classList.toggle("dragging", is && takesImages());
  addEventListener("dragover", (event) => {
    event.preventDefault(); // otherwise a drop beside the zone would leave the page
    over(holdsFiles(event));
  });
  addEventListener("dragleave", (event) => { if (event.relatedTarget === null) over(false); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const [file] = event.dataTransfer?.files ?? [];
    if (!takesImages()) return;
    if (file) ask(ofFile(file));
    else refuse({ problem: "That was no file.", fix: "Save the picture first, then drop it here." });
  });
}
