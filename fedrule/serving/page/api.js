// Requests to the service.

const STORAGE_KEY = "fedrule-token";

/** An error response: a code for programs, the place in the home, and a message for people. */
export class ApiError extends Error {
  constructor(status, { code = "", where = "", message = "" }) {
    super(message);
    Object.assign(this, { status, code, where });
  }
}

let token = stored();

function stored() {
  try {
    return sessionStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return ""; // storage is disabled
  }
}

export const hasToken = () => Boolean(token);

export function useToken(text) {
  token = text;
  try {
    sessionStorage.setItem(STORAGE_KEY, text);
  } catch {
    // Kept in memory until the page is closed.
  }
}

async function request(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", message: "The service cannot be reached. Is it still running?" });
  }
  const content = await response.json().catch(() => null);
  if (response.ok && content) return content;
  const fallback = { message: `The service responded with ${response.status} ${response.statusText}.` };
  throw new ApiError(response.status, content?.error ?? fallback);
}

const models = new Map(); // name -> promise of the model and its rules

/** The description of a model, with its `rules`; cached until `forget`. */
export function model(name) {
  if (!models.has(name)) {
    const query = name ? `?name=${encodeURIComponent(name)}` : "";
    const both = Promise.all([request(`v1/model${query}`), request(`v1/model/rules${query}`)]);
    const whole = both.then(([about, { rules }]) => {
      models.set(about.name, whole); // the default is requested without its name
      return { ...about, rules };
    });
    models.set(name, whole);
    whole.catch(() => models.delete(name));
  }
  return models.get(name);
}

/** Clear the cache: the service has reloaded its models. */
export const forget = () => models.clear();

/** The recommendations for a home; `options` has model, k, unknown and max_similar. */
export function recommend(home, options, signal) {
  const body = JSON.stringify({ ...home, ...options });
  return request("v1/recommend", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
}
