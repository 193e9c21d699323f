// The recommendations of two models side by side: each with its reason and its rank in the other list.

import { make, offer, plain, sentence } from "./dom.js";
import { called, keyOf } from "./home.js";

/** A column: a model and its list. `on` has chosen(name), ignore(), again(), add(rule) and show(rule or null). */
export function column(section, on) {
  const title = section.getAttribute("aria-label");
  const select = make("select", { "aria-label": title, onchange: () => on.chosen(select.value) });
  const about = make("p", { class: "hint" });
  const problem = make("div", { class: "wrong", role: "alert", hidden: true });
  const left = make("ul", { class: "ignored hint", hidden: true });
  const list = make("ol", { class: "recommendations", onmouseleave: () => on.show(null) });
  const nothing = make("p", { class: "nothing", hidden: true });
  section.replaceChildren(make("header", {}, select, about), problem, left, list, nothing);

  return {
    section,
    /** The models to choose from. */
    offer(names, chosen) {
      offer(select, names.map((name) => [name, name]));
      select.value = chosen;
      select.hidden = names.length < 2;
    },
    about(model) {
      const { data, homes } = model.trainings.at(-1) ?? {};
      const who = model.name !== model.method ? [`${model.name}: ${model.method}`] : select.hidden ? [model.name] : [];
      const learned = homes ? [`trained on ${homes.toLocaleString("en")} homes of ${data}`] : [];
      const hits = model.metrics.ranking?.["hr@10"];
      const found = hits === undefined ? [] : [`hit rate at 10: ${percent(hits)}`];
      about.textContent = [...who, ...learned, ...found].join(" · ");
    },
    busy(is) {
      section.setAttribute("aria-busy", is);
    },
    /** Show a response, compared with that of the other column if it has one. */
    show(answer, other) {
      problem.hidden = true;
      const kept = focusKeeper(list);
      const ranks = other && new Map(other.recommendations.map((rule) => [keyOf(rule), rule.rank]));
      list.replaceChildren(
        ...answer.recommendations.map((rule) => item(rule, ranks?.get(keyOf(rule)), other?.model.name, on)),
      );
      nothing.hidden = answer.recommendations.length > 0;
      nothing.textContent = "No recommendations for these devices.";
      left.replaceChildren(...answer.ignored.map((text) => make("li", {}, text)));
      left.hidden = !answer.ignored.length;
      kept?.();
    },
    /** Show an error instead of a list. */
    wrong(error, home) {
      const words = [make("p", {}, describe(error, home))];
      if (["unknown_type", "unknown_relation"].includes(error.code))
        words.push(make("button", { type: "button", onclick: on.ignore }, "Ignore what the model does not know"));
      if (!error.status || [408, 429, 503].includes(error.status))
        words.push(make("button", { type: "button", onclick: on.again }, "Try again"));
      problem.replaceChildren(...words);
      problem.hidden = false;
      this.clear();
    },
    clear(words = "") {
      list.replaceChildren();
      left.hidden = true;
      nothing.textContent = words;
      nothing.hidden = !words;
      if (words) problem.hidden = true;
    },
  };
}

/** The message with the name of the device or rule in place of its path. */
function describe(error, home) {
  const message = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  const [, table, at] = /^(devices|rules)\[(\d+)\]/.exec(error.where ?? "") ?? [];
  const row = home[table]?.[Number(at)];
  if (!row) return error.where ? `${message} (${error.where})` : message;
  return table === "devices" ? `${called(row)}: ${error.message}` : `Rule ${Number(at) + 1}: ${error.message}`;
}

/** A function that restores the focus after the list is replaced. */
function focusKeeper(list) {
  const place = [...list.children].findIndex((line) => line.contains(document.activeElement));
  if (place < 0) return null;
  return () => {
    const line = list.children[Math.min(place, list.children.length - 1)] ?? list.parentElement;
    line.querySelector("button, select")?.focus();
  };
}

function item(rule, rank, other, on) {
  const bar = make("span", { class: "bar" }, make("span", {}));
  bar.firstChild.style.width = `${(rule.probability * 100).toFixed(1)}%`; // a property: the security policy forbids style attributes
  const [kind, words] = rank ? ["mark", `no. ${rank} in ${other}`] : ["mark alone", "only here"];
  const mark = other ? make("span", { class: kind }, words) : null;
  return make(
    "li",
    { onmouseenter: () => on.show(rule), onfocusin: () => on.show(rule), onfocusout: () => on.show(null) },
    make("p", { class: "text" }, ...sentence(rule.text)),
    make("button", { type: "button", "aria-label": `Add: ${plain(rule.text)}`, onclick: () => on.add(rule) }, "Add"),
    make("p", { class: "probability" }, bar, make("span", { class: "percent" }, percent(rule.probability)), mark),
    make("p", { class: "why" }, `Valid: ${rule.why.text}.`),
  );
}

function percent(part) {
  if (part < 0.01) return "< 1%";
  return part > 0.99 && part < 1 ? "> 99%" : `${Math.round(part * 100)}%`;
}

/** A sentence about the overlap of both lists. */
export function compared(one, other) {
  if (!one || !other) return "";
  const keys = new Set(other.recommendations.map(keyOf));
  const both = one.recommendations.filter((rule) => keys.has(keyOf(rule))).length;
  const [first, second] = [one, other].map(({ recommendations }) => recommendations.length - both);
  if (!first && !second) return `Both methods list the same ${both} rules.`;
  const alone = `${first} only in ${one.model.name}, ${second} only in ${other.model.name}`;
  return `${both} ${both === 1 ? "rule is" : "rules are"} in both lists; ${alone}.`;
}
