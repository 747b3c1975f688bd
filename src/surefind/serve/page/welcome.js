// What the page says of the index before anything is asked, and below everything.

import { byId, codeBox, element, say } from "./dom.js";
import { count, many } from "./text.js";

export function showIndex(info) {
  say("which", `${info.name} · ${many(info.images, "image")}`);
  say("foot-words", [
    info.name, many(info.images, "image"), `engine ${info.engine}`, `version ${info.version}`, `surefind ${info.surefind}`,
  ].join(" · "));
  say("promise", info.calibration?.promised);
  byId("ask").hidden = info.images === 0;
  if (info.images === 0) showEmpty(info);
  else if (info.takes_images) showPictures(info);
  else showVectors(info);
}

function showPictures(info) {
  say("hero", info.images === 1 ? "Is it this image?" : `Which of ${count(info.images)} images is it?`);
  const [found, sure] = ["Show a photo: surefind finds the nearest ones", "how sure it is"];
  if (info.calibration !== null) { say("lead", `${found} and says ${sure}.`); return; }
  const uncalibrated = `${found}. It cannot say ${sure} until the index is calibrated:`;
  byId("lead").replaceChildren(uncalibrated, codeBox(info.how_to_calibrate));
}

function showVectors(info) {
  say("hero", `${many(info.images, "image")}, known by their vectors`);
  const lead = byId("lead");
  lead.textContent = "The vectors come from another model, so a photo cannot be asked here. Ask with an image the index knows, "
    + "or send a vector of that model to ";
  lead.append(element("code", {}, "POST /v1/search/vector"), ".");
  if (info.calibration !== null) return;
  lead.append(" There are no percentages until the index is calibrated:", codeBox(info.how_to_calibrate));
}

function showEmpty(info) {
  say("hero", "This index has no images yet");
  byId("lead").replaceChildren("Add some, and this page finds them:", codeBox(`surefind index MODEL PHOTOS -o ${info.name}`));
}
