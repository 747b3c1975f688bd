// HTTP requests to the server, retries and errors.

const MOST_RETRIES = 3;
const LONGEST_WAIT = 30;

/** An error of the server with its fix. Status 0: no response. */
export class Problem extends Error {
  constructor(status, problem, fix = "") {
    super(problem);
    Object.assign(this, { status, problem, fix });
  }
}

/** Fetch a route; retry while the server is busy, calling `busy(seconds, attempt, most)` before each retry. */
export async function fetched(path, { signal, busy, ...request } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await reached(path, { ...request, signal });
    if (response.ok) return response;
    if (response.status !== 503 || attempt > MOST_RETRIES) throw await problemOf(response);
    const seconds = waitOf(response);
    busy?.(seconds, attempt, MOST_RETRIES);
    await pause(seconds, signal);
  }
}

export async function read(path, request) {
  return (await fetched(path, request)).json();
}

/** Search with a query: an image file, or an indexed image. */
export async function askedFor(question, options, request) {
  const about = new URLSearchParams({ k: options.k, ranking: options.ranking });
  for (const condition of options.where) about.append("where", condition);
  if (question.item !== null) {
    return read(`/v1/items/${encodeURIComponent(question.item)}/neighbours?${about}`, request);
  }
  const body = question.file ?? await (await fetched(question.image, request)).blob();
  question.file = body;
  const headers = { "Content-Type": "application/octet-stream" };
  return read(`/v1/search?${about}`, { ...request, method: "POST", body, headers });
}

/** Exchange the token for a cookie that scripts cannot read. */
export async function signIn(token) {
  if (!/^[!-~]+$/.test(token)) throw new Problem(401, "Not a token."); // nor a header
  return fetched("/v1/session", { method: "POST", headers: { Token: token } });
}

/** Wait; reject if aborted. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const called = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", called); resolve(); }, 1000 * seconds);
    signal?.addEventListener("abort", called, { once: true });
  });
}

export function waitOf(response) {
  const seconds = Number(response.headers.get("Retry-After"));
  return Math.min(Math.max(seconds || 1, 1), LONGEST_WAIT);
}

async function reached(path, request) {
  try {
    return await fetch(path, { credentials: "same-origin", ...request });
  } catch (failure) {
    if (request.signal?.aborted) throw failure;
    throw new Problem(0, "The server cannot be reached.", "Check that surefind serve is running, then try again.");
  }
}

async function problemOf(response) {
  try {
    const { error } = await response.json();
    return new Problem(response.status, error.problem, error.fix);
  } catch {
    return new Problem(response.status, `The server answered with status ${response.status}.`, "Try again.");
  }
}
