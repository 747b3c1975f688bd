// What the page says of the index, of problems and of progress; and the form for a token.

import { signIn } from "./api.js";
import { byId, codeBox, element, say } from "./dom.js";
import { count, many, sentence } from "./text.js";

/** What the index is: before anything is asked, and below everything. */
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
    return ["This index has no images yet", "Add some, and this page finds them:", codeBox(`surefind index MODEL PHOTOS -o ${info.name}`)];
  }
  if (!info.takes_images) {
    return [
      `${many(info.images, "image")}, known by their vectors`,
      "The vectors come from another model, so a photo cannot be asked here. Ask with an image the index knows, "
        + "or send a vector of that model to ",
      element("code", {}, "POST /v1/search/vector"), ".",
      ...(uncalibrated ? [" There are no percentages until the index is calibrated:", codeBox(info.how_to_calibrate)] : []),
    ];
  }
  const hero = info.images === 1 ? "Is it this image?" : `Which of ${count(info.images)} images is it?`;
  const [found, sure] = ["Show a photo: surefind finds the nearest ones", "how sure it is"];
  if (!uncalibrated) return [hero, `${found} and says ${sure}.`];
  return [hero, `${found}. It cannot say ${sure} until the index is calibrated:`, codeBox(info.how_to_calibrate)];
}

/** A problem with what to do about it; `again` puts a button beside it. */
export function showProblem({ problem, fix }, again = null) {
  const lines = [element("p", {}, element("strong", {}, sentence(problem)))];
  if (fix) lines.push(element("p", {}, sentence(fix)));
  byId("error").replaceChildren(element("div", {}, ...lines));
  if (again === null) return;
  const button = element("button", { type: "button", class: "primary", id: "retry" }, "Try again");
  button.addEventListener("click", again);
  byId("error").append(button);
}

export function clearProblem() {
  byId("error").replaceChildren();
}

export function showWarnings(warnings) {
  byId("warnings").replaceChildren(...warnings.map((words) => {
    const close = element("button", { type: "button", class: "quiet dismiss", "aria-label": "Dismiss this warning" }, "×");
    const row = element("li", {}, element("span", {}, sentence(words)), close);
    close.addEventListener("click", () => row.remove());
    return row;
  }));
}

/** What is going on; null: nothing. */
export function showProgress(words) {
  say("progress-words", words);
  byId("progress").hidden = words === null;
  byId("answer").setAttribute("aria-busy", String(words !== null));
}

/** `entered()` is called once the server knows us. */
export function setUpSignIn(entered) {
  byId("sign-in").addEventListener("submit", async (event) => {
    event.preventDefault();
    say("sign-in-error", "");
    try {
      await signIn(byId("token").value);
    } catch (failure) {
      say("sign-in-error", failure.status === 401 ? "This is not the token." : failure.message);
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
