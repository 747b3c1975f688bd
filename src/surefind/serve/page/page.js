// Page controller: loads the index info, runs searches, shows results.

import { clearAnswer, judgeAt, showAnswer } from "./answer.js";
import { Problem, askedFor, read } from "./api.js";
import { byId } from "./dom.js";
import { showEvaluation } from "./evaluation.js";
import { forgetMap, markOnMap, setUpMap, showMap } from "./map.js";
import { openTab, openedTab, remember, setUpHistory, setUpTabs, stepOfAddress } from "./navigation.js";
import { askToSignIn, clearProblem, setUpSignIn, showIndex, showProblem, showProgress, showWarnings } from "./notices.js";
import { learnPanels, setUpThreshold, showThreshold, showUncertainty } from "./panels.js";
import {
  chosenOptions, learnQuestion, ofItem, refuseFilter, restoreOptions, setUpQuestion, showFacts, showQuestion, tooLarge,
} from "./question.js";
import { shortened } from "./text.js";

let info = null;
let step = null; // query, options and result on the page
let running = null; // one search at a time: a newer one cancels the older

const become = (state) => { document.body.dataset.state = state; };

async function load() {
  become("loading");
  clearProblem();
  try {
    await learn();
  } catch (failure) {
    fail(failure, load);
    return;
  }
  become("ready");
  if (openedTab() === "map") showMap();
  const asked = stepOfAddress();
  if (asked !== null) ask(ofItem(asked.item, "an indexed image"), { isNew: false });
}

/** Load the index info; an index may change while it is served. */
async function learn() {
  info = await read("/v1/info");
  document.title = `surefind · ${info.name}`;
  showIndex(info);
  learnQuestion(info, ask);
  showWarnings(info.warnings);
  learnPanels(info.calibration);
  showEvaluation(info);
  forgetMap(info);
}

async function ask(question, { isNew = true, options = chosenOptions() } = {}) {
  if (info === null) return;
  const large = tooLarge(question, info.limits);
  if (large !== null) { refuse(large); return; }
  openTab("search");
  clearProblem();
  refuseFilter(null);
  become("asking");
  if (step?.question !== question) forgetAnswer(question);
  try {
    const answer = await answered(question, options);
    if (answer === null) return;
    const mine = { question: named(question, answer), options, answer };
    step = mine;
    remember(mine, { isNew });
    show(mine);
    if (isNew) toTop();
    if (await relearned(answer) && step === mine) show(mine);
  } catch (failure) {
    if (isOfFilter(failure, question, options)) { become("error"); refuseFilter(failure); return; }
    if (step !== null) restoreOptions(step.options); // the hits shown were found with these
    fail(failure, () => ask(question, { isNew, options }));
  }
}

/** The result, or null if cancelled. Throws Problem. */
async function answered(question, options) {
  cancelRunning();
  const mine = running = new AbortController();
  showProgress(`Searching with ${shortened(question.name)}`);
  const busy = (seconds, attempt, most) => showProgress(`The server is busy: retrying in ${seconds} s (${attempt} of ${most})`);
  try {
    const answer = await askedFor(question, options, { signal: mine.signal, busy });
    return running === mine ? answer : null;
  } catch (failure) {
    if (mine.signal.aborted) return null;
    throw failure;
  } finally {
    if (running === mine) endProgress();
  }
}

function cancelRunning() {
  running?.abort();
  if (running !== null) endProgress();
}

function endProgress() {
  running = null;
  showProgress(null);
}

/** A query opened by URL gets its name from the result. */
const named = (question, answer) => (question.item === null ? question : { ...question, name: answer.query.id ?? question.name });

/** Reload the info if the result comes from another version of the index. */
async function relearned(answer) {
  const same = answer.index.version === info.version
    && (answer.calibrated === null || answer.calibrated === info.calibration?.made_with);
  if (!same) await learn();
  return !same;
}

function show({ question, options, answer }) {
  clearProblem();
  restoreOptions(options);
  showQuestion(question, info);
  showFacts(answer);
  showAnswer(answer, info, { filtered: options.where.length > 0, more, rankAs });
  showThreshold(answer);
  showUncertainty(answer, info);
  markOnMap(answer);
  document.title = `${question.name} · surefind`;
  become("answered");
}

/** Clear old hits when the query changes. */
function forgetAnswer(question) {
  step = null;
  showQuestion(question, info);
  clearAnswer();
  showThreshold(null);
  showUncertainty(null, info);
}

function isOfFilter(failure, question, options) {
  const refused = failure instanceof Problem && (failure.status === 400 || failure.status === 422);
  return refused && options.where.length > 0 && (question.item !== null || step?.question === question);
}

function fail(failure, again) {
  openTab("search");
  if (!(failure instanceof Problem)) {
    console.error(failure);
    const fix = `Reload the page: ${failure.message}`;
    showProblem({ problem: "The page could not show the result", fix }, () => location.reload());
  } else if (failure.status === 401) askToSignIn();
  else showProblem(failure, failure.status === 0 || failure.status >= 500 ? again : null);
  become("error");
}

function refuse(problem) {
  openTab("search");
  become("error");
  showProblem(problem);
  toTop();
}

function toTop() {
  const motion = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  scrollTo({ top: 0, behavior: motion });
  // The clicked button is gone with its card; move the focus to the result.
  if (document.activeElement === document.body) byId("panel-search").focus({ preventScroll: true });
}

function begin() {
  forgetAnswer(null);
  clearProblem();
  document.title = `surefind · ${info.name}`;
  become("ready");
}

function goBack(before) {
  cancelRunning();
  openTab("search");
  if (before === null) begin();
  else if (before.answer) { step = before; show(before); toTop(); }
  else ask(ofItem(before.item, "an indexed image"), { isNew: false });
}

const more = (item, name) => ask(ofItem(item, name));

function rankAs(ranking) {
  restoreOptions({ ...chosenOptions(), ranking });
  ask(step.question, { isNew: false });
}

function cancel() {
  cancelRunning();
  if (step === null) begin();
  else { restoreOptions(step.options); become("answered"); }
}

setUpQuestion({ ask, refuse, changed: () => { if (step !== null) ask(step.question, { isNew: false }); } });
setUpThreshold(judgeAt);
setUpSignIn(load);
setUpHistory(goBack);
setUpMap({ open: more });
setUpTabs((name) => { if (name === "map" && info !== null) showMap(); });
byId("cancel").addEventListener("click", cancel);
load();
