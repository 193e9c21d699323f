// A home in the format of the service and the command line: {devices: [{id, type, name}], rules: [{trigger, ...}]}.

// Names for devices of the examples; other types are named after their type.
const EXAMPLE_NAMES = {
  Camera: ["Porch camera", "Nursery camera"],
  OutdoorCamera: ["Garden camera", "Garage camera"],
  ContactSensor: ["Front door", "Back door"],
  MotionSensor: ["Hall motion", "Stairs motion"],
  Light: ["Hall light", "Kitchen light"],
  MeshLight: ["Living room lights", "Bedroom lights"],
  LightStrip: ["Cabinet lights", "Stair lights"],
  Plug: ["Coffee maker", "Heater"],
  OutdoorPlug: ["Garden lights", "Fountain"],
  Switch: ["Porch switch", "Cellar switch"],
  Lock: ["Door lock", "Side door lock"],
  Thermostat: ["Thermostat", "Upstairs thermostat"],
};

export const empty = () => ({ devices: [], rules: [] });
export const same = (one, other) => one === other; // ids 1 and "1" are two devices
export const called = (device) => device.name || String(device.id);
export const keyOf = ({ trigger, trigger_state, action, action_device }) =>
  JSON.stringify([trigger, trigger_state, action, action_device]);

export const deviceOf = (home, id) => home.devices.find((device) => same(device.id, id));

/** Add a device, named after its type unless a name is given. */
export function withDevice(home, type, name = "") {
  const word = name.trim() || numbered(type.replaceAll("_", " "), home.devices.map(called), " ");
  const slug = word.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  const id = numbered(slug.slice(0, 60) || "device", home.devices.map((device) => String(device.id)), "-");
  return { ...home, devices: [...home.devices, { id, type, name: word }] };
}

function numbered(word, taken, between) {
  for (let n = 1; ; n++) {
    const tried = n === 1 ? word : `${word}${between}${n}`;
    if (!taken.includes(tried)) return tried;
  }
}

/** Remove the device at this position, and its rules. */
export function withoutDevice(home, place) {
  const { id } = home.devices[place];
  return {
    ...home,
    devices: home.devices.filter((_, n) => n !== place),
    rules: home.rules.filter((rule) => !same(rule.trigger, id) && !same(rule.action_device, id)),
  };
}

export function renamed(home, place, name) {
  return { ...home, devices: home.devices.map((device, n) => (n === place ? { ...device, name } : device)) };
}

export const has = (home, rule) => home.rules.some((other) => keyOf(other) === keyOf(rule));

export function withRule(home, { trigger, trigger_state, action, action_device }) {
  const rule = { trigger, trigger_state, action, action_device };
  return has(home, rule) ? home : { ...home, rules: [...home.rules, rule] };
}

export const withoutRule = (home, place) => ({ ...home, rules: home.rules.filter((_, n) => n !== place) });

/** Rules between devices of these two types. */
export const between = (rules, trigger, device) =>
  rules.filter((rule) => rule.trigger_type === trigger?.type && rule.action_type === device?.type);

/** A home of the types with the most common rules and a few of these rules, so that the rest can be recommended. */
export function example(rules, kind) {
  if (kind === "empty") return empty();
  const [types, twice, most] = kind === "flat" ? [4, 0, 2] : [7, 2, 5];
  const crossing = rules.filter((rule) => rule.trigger_type !== rule.action_type);
  const counts = new Map();
  for (const rule of crossing.length ? crossing : rules) {
    for (const type of [rule.trigger_type, rule.action_type]) counts.set(type, (counts.get(type) ?? 0) + rule.homes);
  }
  const chosen = [...counts].sort((one, other) => other[1] - one[1]).map(([type]) => type).slice(0, types);
  let home = empty();
  for (const type of [...chosen, ...chosen.slice(0, twice)]) {
    const earlier = home.devices.filter((device) => device.type === type).length;
    home = withDevice(home, type, EXAMPLE_NAMES[type]?.[earlier]);
  }
  const pairs = new Set(); // one rule per pair of types, for variety
  for (const rule of rules) {
    const trigger = home.devices.find((device) => device.type === rule.trigger_type);
    const device = home.devices.findLast((device) => device.type === rule.action_type);
    const pair = JSON.stringify([rule.trigger_type, rule.action_type].sort());
    if (!trigger || !device || trigger === device || pairs.has(pair) || home.rules.length === most) continue;
    pairs.add(pair);
    const { trigger_state, action } = rule;
    home = withRule(home, { trigger: trigger.id, trigger_state, action, action_device: device.id });
  }
  return home;
}

export const written = (home) => JSON.stringify(home, null, 2);

/** Parse text; only the basic form is checked, the rest is up to the service. */
export function read(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid JSON: ${error.message}`);
  }
  const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const isId = (value) => (typeof value === "string" && value !== "") || Number.isSafeInteger(value);
  if (!isTable(content) || !Array.isArray(content.devices)) throw new Error('Expected an object with a list "devices".');
  const { devices, rules = [], user } = content;
  if (!Array.isArray(rules)) throw new Error('"rules" must be a list.');
  devices.forEach((device, n) => {
    if (!isTable(device) || !isId(device.id) || typeof device.type !== "string")
      throw new Error(`devices[${n}] needs an "id" (string or integer) and a "type" (string).`);
    if (typeof (device.name ?? "") !== "string") throw new Error(`devices[${n}].name must be a string.`);
  });
  rules.forEach((rule, n) => {
    const whole = isTable(rule) && isId(rule.trigger) && isId(rule.action_device);
    if (!whole || typeof rule.trigger_state !== "string" || typeof rule.action !== "string")
      throw new Error(`rules[${n}] needs "trigger", "trigger_state", "action" and "action_device".`);
  });
  return user === undefined ? { devices, rules } : { devices, rules, user };
}

/** Encode for the fragment of an address. */
export function packed(home) {
  const bytes = new TextEncoder().encode(JSON.stringify(home));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export function unpacked(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    throw new Error("The home in this address cannot be read; it may be truncated.");
  }
  return read(new TextDecoder().decode(bytes));
}
