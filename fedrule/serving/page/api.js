// What the service is asked, and its errors in words.

const KEPT = "fedrule-token";

/** An answer that is none: a code for programs, the place in the home, and words for people. */
export class Refused extends Error {
  constructor(status, { code = "", where = "", message = "" }) {
    super(message);
    Object.assign(this, { status, code, where });
  }
}

let token = kept();

function kept() {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return ""; // a browser that stores nothing
  }
}

export const hasToken = () => Boolean(token);

export function useToken(text) {
  token = text;
  try {
    sessionStorage.setItem(KEPT, text);
  } catch {
    // It is still known until the page is left.
  }
}

async function asked(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { code: "unreachable", message: "The service cannot be reached. Is it still running?" });
  }
  const content = await response.json().catch(() => null);
  if (response.ok && content) return content;
  const fallback = { message: `The service answered ${response.status} ${response.statusText}.` };
  throw new Refused(response.status, content?.error ?? fallback);
}

const known = new Map(); // name -> promise of the model and its rules

/** What a model says about itself, with `rules`; asked once, until it is forgotten. */
export function model(name) {
  if (!known.has(name)) {
    const query = name ? `?name=${encodeURIComponent(name)}` : "";
    const both = Promise.all([asked(`v1/model${query}`), asked(`v1/model/rules${query}`)]);
    const whole = both.then(([about, { rules }]) => {
      known.set(about.name, whole); // the first one is asked for without its name
      return { ...about, rules };
    });
    known.set(name, whole);
    whole.catch(() => known.delete(name));
  }
  return known.get(name);
}

/** Ask again: the service has read other models since. */
export const forget = () => known.clear();

/** The list for a home; `choice` has model, k, unknown and max_similar. */
export function recommend(home, choice, signal) {
  const body = JSON.stringify({ ...home, ...choice });
  return asked("v1/recommend", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
}
