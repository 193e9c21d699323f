// Elements from words. Text is always text: nothing here reads HTML, so no name can become an element.

const SVG = "http://www.w3.org/2000/svg";

export const at = (id) => document.getElementById(id);

/** An element; properties beginning with "on" are listeners, true is an attribute without a value, null is none. */
export function make(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function drawn(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Show words, or hide where they would stand. */
export function tell(element, words) {
  element.textContent = words;
  element.hidden = !words;
}

/** Offer these to choose from, keeping what was chosen where it is still there. */
export function offer(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  if (options.some(([value]) => String(value) === before)) select.value = before;
  select.disabled = !options.length;
}

/** A sentence of the service: names stand between asterisks. */
export function sentence(text) {
  return text.split("*").map((part, n) => (n % 2 ? make("b", {}, part) : part));
}

export const plain = (text) => text.replaceAll("*", "");
