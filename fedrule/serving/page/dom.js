// Creating elements. Text is never parsed as HTML, so a device name cannot become an element.

const SVG = "http://www.w3.org/2000/svg";

export const at = (id) => document.getElementById(id);

/** An element; properties that begin with "on" are listeners, true is an attribute without value, null is omitted. */
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

/** Show a text, or hide the element if it is empty. */
export function tell(element, words) {
  element.textContent = words;
  element.hidden = !words;
}

/** Set the options of a select, keeping its value if it is still there. */
export function offer(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  if (options.some(([value]) => String(value) === before)) select.value = before;
  select.disabled = !options.length;
}

/** A sentence of the service: names are between asterisks. */
export function sentence(text) {
  return text.split("*").map((part, n) => (n % 2 ? make("b", {}, part) : part));
}

export const plain = (text) => text.replaceAll("*", "");
