// The page: a home to edit, its graph, and the recommendations of two models.

import { ApiError, forget, hasToken, model, recommend, useToken } from "./api.js";
import { editor } from "./editor.js";
import { at, make, plain, tell } from "./dom.js";
import { exportHome, listen } from "./transfer.js";
import { draw } from "./graph.js";
import * as homes from "./home.js";
import { column, compared } from "./lists.js";

const WAIT = 150; // ms from the last change to the request
const K = 10;
const MAX_SIMILAR = 3; // rules with one relation and device types: in a house of lamps one kind would fill the list

let home = homes.empty();
let names = []; // of the models
let sides = []; // the columns: {name, model, unknown, answer, error, view}
let show = () => {}; // draws a rule into the graph, dashed
let highlighted = null; // that rule
let requests = null; // the AbortController of those in flight
let timer = 0; // until the home stops changing

const description = editor(change);
listen(change);
start();

async function start() {
  tell(at("problem"), "");
  try {
    const first = await model("");
    names = first.models;
    at("token").hidden = true;
    const address = new URLSearchParams(location.hash.slice(1));
    const wanted = ["left", "right"].map((end) => address.get(end));
    const chosen = wanted.map((name, n) => (names.includes(name) ? name : names[n]));
    sides = [...document.querySelectorAll(".list")].map((section, n) => side(section, chosen[n]));
    await loadModels();
    at("main").hidden = false;
    if (!restored(address)) change(example("flat"));
  } catch (error) {
    showError(error);
  }
}

function showError(error) {
  if (error instanceof ApiError && error.status === 401) askForToken(error);
  else tell(at("problem"), error.message);
}

function side(section, name) {
  const each = { name, unknown: "refuse", answer: null, error: null };
  each.view = column(section, {
    chosen: (chosen) => {
      Object.assign(each, { name: chosen, unknown: "refuse" });
      loadModels().then(() => change(), showError);
    },
    ignore: () => {
      each.unknown = "ignore";
      change();
    },
    again: () => change(),
    add: (rule) => {
      change(homes.withRule(home, rule));
      tell(at("status"), `Added: ${plain(rule.text)}`);
    },
    show: highlight,
  });
  if (name) each.view.offer(names, name);
  else {
    const how = "Only one model is loaded. To compare two methods, start the service with two model files: ";
    const command = make("code", {}, "python -m fedrule serve A.safetensors B.safetensors");
    section.replaceChildren(make("p", { class: "hint" }, how, command));
    section.classList.add("lone");
  }
  return each;
}

/** Load the vocabularies of the selected models and offer their types and rules. */
async function loadModels() {
  const shown = sides.filter(({ name }) => name);
  await Promise.all(shown.map(async (each) => (each.model = await model(each.name))));
  shown.forEach((each) => each.view.about(each.model));
  const types = [...new Set(shown.flatMap((each) => each.model.types))].sort();
  const merged = new Map();
  for (const rule of shown.flatMap((each) => each.model.rules)) {
    const key = JSON.stringify([rule.trigger_type, rule.trigger_state, rule.action, rule.action_type]);
    if (!(merged.get(key)?.homes > rule.homes)) merged.set(key, rule);
  }
  description.offer(types, [...merged.values()].sort((a, b) => b.homes - a.homes));
}

const example = (kind) => homes.example(sides[0].model.rules, kind);

function askForToken(error) {
  at("main").hidden = true;
  at("token").hidden = false;
  tell(at("problem"), hasToken() ? `Wrong token: ${error.message}` : "");
  at("token-text").focus();
}

/** Restore the home in the address, if there is one. */
function restored(address) {
  if (!address.get("home")) return false;
  try {
    change(homes.unpacked(address.get("home")));
    return true;
  } catch (error) {
    tell(at("problem"), error.message);
    return false;
  }
}

/** Set another home, or other models, and update everything. */
function change(next = home) {
  home = next;
  const address = new URLSearchParams({ home: homes.packed(home) });
  ["left", "right"].forEach((end, n) => sides[n].name && address.set(end, sides[n].name));
  history.replaceState(null, "", `#${address}`);
  description.show(home);
  redraw();
  exportHome(home, sides[0].name);
  requests?.abort();
  clearTimeout(timer);
  timer = setTimeout(query, WAIT);
}

async function query() {
  const { signal } = (requests = new AbortController());
  const shown = sides.filter(({ name }) => name);
  const none = { answer: null, error: null };
  let answers = shown.map(() => none);
  if (home.devices.length) {
    shown.forEach(({ view }) => view.busy(true));
    answers = await Promise.all(
      shown.map(({ name, unknown }) =>
        recommend(home, { k: K, model: name, unknown, max_similar: MAX_SIMILAR }, signal).then(
          (answer) => ({ ...none, answer }),
          (error) => ({ ...none, error }),
        ),
      ),
    );
    if (signal.aborted) return; // the home has changed since
  }
  shown.forEach((each, n) => Object.assign(each, answers[n]));
  const refused = shown.find(({ error }) => error?.status === 401);
  if (refused) return askForToken(refused.error);
  showResults(shown);
  if (shown.some(({ answer, model }) => answer && answer.model.digest !== model.digest)) {
    forget();
    loadModels().then(() => description.show(home), showError);
  }
}

function showResults(shown) {
  highlight(null);
  const [one, other] = sides;
  for (const each of shown) {
    each.view.busy(false);
    if (each.error) each.view.wrong(each.error, home);
    else if (each.answer) each.view.show(each.answer, (each === one ? other : one).answer);
    else each.view.clear("Add a device to begin.");
  }
  tell(at("comparison"), compared(one.answer, other.answer));
  showErrors();
}

/** Show the errors about a device or a rule next to it. */
function showErrors() {
  for (const table of ["devices", "rules"]) {
    [...at(table).children].forEach((row, place) => {
      const wrong = sides.filter(({ error }) => error?.where?.startsWith(`${table}[${place}]`));
      tell(row.querySelector(".wrong"), wrong.map(({ name, error }) => `${name}: ${error.message}`).join("\n"));
    });
  }
}

function redraw() {
  const width = at("graph").clientWidth;
  if (!width) return;
  if (!home.devices.length) return at("graph").replaceChildren(make("p", { class: "nothing" }, "No devices yet."));
  show = draw(at("graph"), home, width);
  show(highlighted);
}

function highlight(rule) {
  highlighted = rule;
  show(rule);
}

at("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(at("token-text").value);
  at("token-text").value = "";
  start();
});
new ResizeObserver(redraw).observe(at("graph"));
for (const button of document.querySelectorAll("[data-example]"))
  button.addEventListener("click", () => change(example(button.dataset.example)));
addEventListener("hashchange", () => restored(new URLSearchParams(location.hash.slice(1))));
