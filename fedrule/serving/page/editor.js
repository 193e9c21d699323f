// The editor of a home: its devices and rules, and the forms that add to them.

import { at, make, offer, tell } from "./dom.js";
import * as homes from "./home.js";

/** Set up the lists and forms; `change` is called with every new home. */
export function editor(change) {
  let home = homes.empty();
  let rules = [];

  at("add-device").addEventListener("submit", (event) => {
    event.preventDefault();
    change(homes.withDevice(home, at("device-type").value, at("device-name").value));
    at("device-name").value = "";
    at("device-name").focus();
  });
  at("add-rule").addEventListener("change", () => formRule(home, rules));
  at("add-rule").addEventListener("submit", (event) => {
    event.preventDefault();
    const rule = formRule(home, rules);
    if (rule) change(homes.withRule(home, rule));
  });

  /** After a removal by keyboard the focus moves to the next entry. */
  const drop = (table, place) => {
    change(table === "devices" ? homes.withoutDevice(home, place) : homes.withoutRule(home, place));
    const left = at(table).querySelectorAll(".drop");
    (left[Math.min(place, left.length - 1)] ?? at(table === "devices" ? "device-type" : "rule-trigger")).focus();
  };
  const rename = (place, name) => change(homes.renamed(home, place, name));

  return {
    /** Set the types and rules to choose from. */
    offer(types, known) {
      rules = known;
      offer(at("device-type"), types.map((type) => [type, type]));
    },
    show(next) {
      home = next;
      at("devices-count").textContent = home.devices.length;
      at("rules-count").textContent = home.rules.length;
      listDevices(home, rename, (place) => drop("devices", place));
      at("rules").replaceChildren(...home.rules.map((rule, n) => ruleRow(home, rule, () => drop("rules", n))));
      const fresh = !at("rule-device").options.length;
      if (!formRule(home, rules) || fresh) choose(home, rules);
    },
  };
}

function listDevices(home, rename, drop) {
  const rows = at("devices").children;
  const ids = home.devices.map((device) => JSON.stringify(device.id));
  const kept = rows.length === ids.length && ids.every((id, n) => rows[n].dataset.id === id);
  if (!kept) at("devices").replaceChildren(...ids.map((id, n) => deviceRow(id, n, rename, drop)));
  home.devices.forEach((device, n) => fill(rows[n], device)); // keeps the focus while a name is typed
}

function deviceRow(id, place, rename, drop) {
  const typed = (event) => rename(place, event.target.value);
  return make(
    "li",
    { "data-id": id },
    make("input", { maxlength: 200, autocomplete: "off", oninput: typed }),
    make("span", { class: "type" }),
    make("button", { type: "button", class: "drop", onclick: () => drop(place) }, "×"),
    make("p", { class: "wrong", hidden: true }),
  );
}

function fill(row, device) {
  const [input, type, drop] = row.children;
  if (document.activeElement !== input) input.value = homes.called(device);
  input.setAttribute("aria-label", `Name of the ${device.type}`);
  type.textContent = device.type;
  drop.setAttribute("aria-label", `Remove ${homes.called(device)}`);
}

function ruleRow(home, { trigger, trigger_state, action, action_device }, drop) {
  const name = (id) => make("b", {}, homes.called(homes.deviceOf(home, id) ?? { id }));
  const said = make("span", {}, name(trigger), ` ${trigger_state} → ${action} `, name(action_device));
  const label = `Remove the rule ${said.textContent}`;
  const button = make("button", { type: "button", class: "drop", "aria-label": label, onclick: drop }, "×");
  return make("li", {}, said, button, make("p", { class: "wrong", hidden: true }));
}

/** The rule in the form, if any; the options follow from its two devices. */
function formRule(home, rules) {
  const devices = home.devices.map((device, n) => [n, homes.called(device)]);
  for (const id of ["rule-trigger", "rule-device"]) offer(at(id), devices);
  const [trigger, device] = ["rule-trigger", "rule-device"].map((id) => home.devices[at(id).value]);
  const fitting = homes.between(rules, trigger, device);
  const states = [...new Set(fitting.map((rule) => rule.trigger_state))];
  offer(at("rule-state"), states.map((state) => [state, state]));
  const actions = fitting.filter((rule) => rule.trigger_state === at("rule-state").value).map((rule) => rule.action);
  offer(at("rule-action"), actions.map((action) => [action, action]));
  const [trigger_state, action] = [at("rule-state").value, at("rule-action").value];
  const rule = action ? { trigger: trigger.id, trigger_state, action, action_device: device.id } : null;
  const has = rule !== null && homes.has(home, rule);
  at("rule-add").disabled = !rule || has;
  tell(at("rule-hint"), has ? "The home already has this rule." : rule ? "" : whyNone(trigger, device));
  return rule;
}

/** Select two devices with possible rules between them. */
function choose(home, rules) {
  for (const [n, trigger] of home.devices.entries()) {
    const fits = (device) => device !== trigger && homes.between(rules, trigger, device).length > 0;
    const other = home.devices.findIndex(fits);
    if (other < 0) continue;
    at("rule-trigger").value = n;
    at("rule-device").value = other;
    formRule(home, rules);
    return;
  }
}

function whyNone(trigger, device) {
  if (!trigger || !device) return "Add devices first.";
  return `No known rule from ${trigger.type} to ${device.type}; choose other devices.`;
}
