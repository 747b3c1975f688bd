// Index summary, problems, warnings, progress, and the sign-in form.

import { signIn } from "./api.js";
import { button, byId, codeBox, element, say } from "./dom.js";
import { count, many, sentence } from "./text.js";

/** Show the index in the header, the introduction and the footer. */
export function showIndex(info) {
  const images = many(info.images, "image");
  say("which", `${info.name} · ${images}`);
  say("foot-words", [info.name, images, `engine ${info.engine}`, `version ${info.version}`, `surefind ${info.surefind}`].join(" · "));
  say("guarantee", info.calibration?.guaranteed);
  byId("ask").hidden = info.images === 0;
  const [hero, ...lead] = welcome(info);
  say("hero", hero);
  byId("lead").replaceChildren(...lead);
}

function welcome(info) {
  const uncalibrated = info.calibration === null;
  if (info.images === 0) {
    return ["This index has no images yet", "Add some:", codeBox(`surefind index PHOTOS -o ${info.name}`)];
  }
  if (!info.takes_images) {
    return [
      `${many(info.images, "image")}, indexed by vectors`,
      "The vectors come from another model, so photos cannot be searched here. Search with an indexed image, "
        + "or send a vector of that model to ",
      element("code", {}, "POST /v1/search/vector"), ".",
      ...(uncalibrated ? [" Confidence needs a calibration:", codeBox(info.how_to_calibrate)] : []),
    ];
  }
  const hero = info.images === 1 ? "Search 1 image" : `Search ${count(info.images)} images`;
  const [found, sure] = ["Choose a photo: surefind finds the most similar images", "how reliable each hit is"];
  const byLabel = !uncalibrated && info.calibration.origin.evidence !== "neighbourhoods";
  if (byLabel) return [hero, "Choose a photo: surefind names its label, with a probability, and shows the most similar images."];
  if (!uncalibrated) return [hero, `${found} and says ${sure}.`];
  return [hero, `${found}. To see ${sure}, calibrate the index:`, codeBox(info.how_to_calibrate)];
}

/** Show a problem and its fix; `again` adds a retry button. */
export function showProblem({ problem, fix }, again = null) {
  const lines = [element("p", {}, element("strong", {}, sentence(problem)))];
  if (fix) lines.push(element("p", {}, sentence(fix)));
  byId("error").replaceChildren(element("div", {}, ...lines));
  if (again !== null) byId("error").append(button({ class: "primary", id: "retry" }, again, "Try again"));
}

export function clearProblem() {
  byId("error").replaceChildren();
}

export function showWarnings(warnings) {
  byId("warnings").replaceChildren(...warnings.map((words) => {
    const close = button({ class: "quiet dismiss", "aria-label": "Dismiss this warning" }, () => row.remove(), "×");
    const row = element("li", {}, element("span", {}, sentence(words)), close);
    return row;
  }));
}

/** Show progress; null hides it. */
export function showProgress(words) {
  say("progress-words", words);
  byId("progress").hidden = words === null;
  byId("answer").setAttribute("aria-busy", String(words !== null));
}

/** `entered()` is called once signed in. */
export function setUpSignIn(entered) {
  byId("sign-in").addEventListener("submit", async (event) => {
    event.preventDefault();
    say("sign-in-error", "");
    try {
      await signIn(byId("token").value);
    } catch (failure) {
      say("sign-in-error", failure.status === 401 ? "Wrong token." : failure.message);
      byId("token").select();
      return;
    }
    byId("token").value = "";
    byId("sign-in").hidden = true;
    byId("main").hidden = false;
    entered();
  });
}

export function askToSignIn() {
  byId("main").hidden = true;
  byId("sign-in").hidden = false;
  byId("token").focus();
}
