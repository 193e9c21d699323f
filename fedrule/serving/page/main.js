// The page: a home that is being described, its graph, and the lists of two methods for it.

import { Refused, forget, hasToken, model, recommend, useToken } from "./api.js";
import { described } from "./described.js";
import { at, make, plain, tell } from "./dom.js";
import { exchange, write } from "./exchange.js";
import { draw } from "./graph.js";
import * as homes from "./home.js";
import { column, compared } from "./lists.js";

const WAIT = 150; // ms after the last change until the service is asked
const K = 10;
const MAX_SIMILAR = 3; // rules of one relation between the same types: a house of lamps would fill a list with one

let home = homes.empty();
let names = []; // of the models that are served
let sides = []; // what each column shows: {name, model, unknown, answer, error, view}
let show = () => {}; // draws a rule into the graph, dashed
let pointed = null; // the rule that is drawn so
let asking = null; // the requests under way
let waiting = 0; // until the home stops changing

const description = described(change);
exchange(change);
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
    await known();
    at("main").hidden = false;
    if (!reopened(address)) change(example("flat"));
  } catch (error) {
    complain(error);
  }
}

function complain(error) {
  if (error instanceof Refused && error.status === 401) askForToken(error);
  else tell(at("problem"), error.message);
}

function side(section, name) {
  const each = { name, unknown: "refuse", answer: null, error: null };
  each.view = column(section, {
    chosen: (chosen) => {
      Object.assign(each, { name: chosen, unknown: "refuse" });
      known().then(() => change(), complain);
    },
    ignore: () => {
      each.unknown = "ignore";
      change();
    },
    again: () => change(),
    add: (rule) => {
      change(homes.withRule(home, rule));
      tell(at("said"), `Added: ${plain(rule.text)}`);
    },
    show: point,
  });
  if (name) each.view.offer(names, name);
  else {
    const how = "Only one model is served. To compare two methods here, start the service with two model files: ";
    const command = make("code", {}, "python -m fedrule serve A.safetensors B.safetensors");
    section.replaceChildren(make("p", { class: "hint" }, how, command));
    section.classList.add("lone");
  }
  return each;
}

/** What the chosen models know: their types and rules are offered. */
async function known() {
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
  tell(at("problem"), hasToken() ? `The token was refused: ${error.message}` : "");
  at("token-text").focus();
}

/** The home of the address, if there is one. */
function reopened(address) {
  if (!address.get("home")) return false;
  try {
    change(homes.unpacked(address.get("home")));
    return true;
  } catch (error) {
    tell(at("problem"), error.message);
    return false;
  }
}

/** Take another home, or other methods, and bring everything up to date. */
function change(next = home) {
  home = next;
  const address = new URLSearchParams({ home: homes.packed(home) });
  ["left", "right"].forEach((end, n) => sides[n].name && address.set(end, sides[n].name));
  history.replaceState(null, "", `#${address}`);
  description.show(home);
  redraw();
  write(home, sides[0].name);
  asking?.abort();
  clearTimeout(waiting);
  waiting = setTimeout(ask, WAIT);
}

async function ask() {
  const { signal } = (asking = new AbortController());
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
    if (signal.aborted) return; // the home has changed meanwhile
  }
  shown.forEach((each, n) => Object.assign(each, answers[n]));
  const refused = shown.find(({ error }) => error?.status === 401);
  if (refused) return askForToken(refused.error);
  showAnswers(shown);
  if (shown.some(({ answer, model }) => answer && answer.model.digest !== model.digest)) {
    forget();
    known().then(() => description.show(home), complain);
  }
}

function showAnswers(shown) {
  point(null);
  const [one, other] = sides;
  for (const each of shown) {
    each.view.busy(false);
    if (each.error) each.view.wrong(each.error, home);
    else if (each.answer) each.view.show(each.answer, (each === one ? other : one).answer);
    else each.view.clear("Add a device to begin.");
  }
  tell(at("comparison"), compared(one.answer, other.answer));
  markWrong();
}

/** What the service says about a device or a rule stands at it. */
function markWrong() {
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
  show(pointed);
}

function point(rule) {
  pointed = rule;
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
addEventListener("hashchange", () => reopened(new URLSearchParams(location.hash.slice(1))));
