// The picture that was asked with.

import { byId, element, say } from "./dom.js";
import { bytes, count, shortened } from "./text.js";

let shownUrl = null;

export function showQuestion(question, info) {
  byId("asked").hidden = question === null;
  document.body.classList.toggle("has-question", question !== null);
  if (shownUrl !== null) URL.revokeObjectURL(shownUrl);
  shownUrl = null;
  if (question === null) return;
  if (question.file !== null) shownUrl = URL.createObjectURL(question.file);
  const hasPicture = question.item === null || info.pictures;
  byId("asked-picture").hidden = !hasPicture;
  byId("asked-picture").replaceChildren(...(hasPicture ? [pictureOf(question)] : []));
  const name = byId("asked-name");
  name.textContent = shortened(question.name, 34);
  name.title = question.name;
  say("asked-facts", question.item === null && question.file ? bytes(question.file.size) : "");
}

function pictureOf(question) {
  const picture = element("img", { src: shownUrl ?? question.picture, alt: `The picture asked with: ${question.name}` });
  // Browsers draw no TIFF, and a broken file has nothing to draw; the server may still read it.
  picture.addEventListener("error", () => picture.replaceWith(element("p", { class: "no-picture" }, question.name)));
  return picture;
}

/** What the server saw of it. */
export function showFacts(answer) {
  const { width, height, bytes: size } = answer.query;
  const facts = [];
  if (width) facts.push(`${count(width)} × ${count(height)}`);
  if (size) facts.push(bytes(size));
  if (answer.query.item) facts.push("of the gallery");
  facts.push(`answered in ${Math.max(1, Math.round(1000 * answer.seconds.total))}\u00a0ms`);
  say("asked-facts", facts.join(" · "));
}
