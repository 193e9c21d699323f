// Describing a home: its devices with their names, its rules, and the forms that add to both.

import { at, make, offer, tell } from "./dom.js";
import * as homes from "./home.js";

/** The lists and forms; `change` is given every home that comes of using them. */
export function described(change) {
  let home = homes.empty();
  let rules = [];

  at("add-device").addEventListener("submit", (event) => {
    event.preventDefault();
    change(homes.withDevice(home, at("device-type").value, at("device-name").value));
    at("device-name").value = "";
    at("device-name").focus();
  });
  at("add-rule").addEventListener("change", () => asked(home, rules));
  at("add-rule").addEventListener("submit", (event) => {
    event.preventDefault();
    const rule = asked(home, rules);
    if (rule) change(homes.withRule(home, rule));
  });

  /** Whoever removes something by keyboard goes on at the next one. */
  const drop = (table, place) => {
    change(table === "devices" ? homes.withoutDevice(home, place) : homes.withoutRule(home, place));
    const left = at(table).querySelectorAll(".drop");
    (left[Math.min(place, left.length - 1)] ?? at(table === "devices" ? "device-type" : "rule-trigger")).focus();
  };
  const rename = (place, name) => change(homes.renamed(home, place, name));

  return {
    /** The types and rules that can be chosen. */
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
      if (!asked(home, rules) || fresh) choose(home, rules);
    },
  };
}

function listDevices(home, rename, drop) {
  const rows = at("devices").children;
  const ids = home.devices.map((device) => JSON.stringify(device.id));
  const kept = rows.length === ids.length && ids.every((id, n) => rows[n].dataset.id === id);
  if (!kept) at("devices").replaceChildren(...ids.map((id, n) => deviceRow(id, n, rename, drop)));
  home.devices.forEach((device, n) => fill(rows[n], device)); // a name that is being typed keeps the focus
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

/** The rule that the form describes, if any; what can be chosen follows from its two devices. */
function asked(home, rules) {
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
  tell(at("rule-hint"), has ? "The home has this rule." : rule ? "" : whyNone(trigger, device));
  return rule;
}

/** Begin with two devices that homes have rules between. */
function choose(home, rules) {
  for (const [n, trigger] of home.devices.entries()) {
    const fits = (device) => device !== trigger && homes.between(rules, trigger, device).length > 0;
    const other = home.devices.findIndex(fits);
    if (other < 0) continue;
    at("rule-trigger").value = n;
    at("rule-device").value = other;
    asked(home, rules);
    return;
  }
}

function whyNone(trigger, device) {
  if (!trigger || !device) return "Add devices first.";
  return `No home has a rule from a ${trigger.type} to a ${device.type}; choose other devices.`;
}
