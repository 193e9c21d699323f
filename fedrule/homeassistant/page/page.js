"use strict";
// Copying, hiding and finding suggestions, and the light that joins a card with its line in the graph. All text of the
// home is in the markup already; nothing here makes markup from text.

const KEY = "fedrule-not-for-me"; // ids that were hidden, on whichever page of this machine
const one = (selector) => document.querySelector(selector);
const every = (selector, within = document) => [...within.querySelectorAll(selector)];
const words = (text) => (text || "").split(" ").filter(Boolean);
const cards = every(".suggestion");
const picture = one("#picture");

document.documentElement.classList.add("js");

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// --- What the page says of what it did
let silence = 0;
function say(text) {
  const said = one("#said");
  said.textContent = text;
  said.classList.add("seen");
  clearTimeout(silence);
  silence = setTimeout(() => said.classList.remove("seen"), 2500);
}

// --- Copying
/** Browsers that keep the clipboard from pages on disk still copy a selection. */
function copySelection(text) {
  const field = element("textarea", { value: text, readOnly: true, className: "clipboard" });
  field.setAttribute("aria-hidden", "true");
  const before = document.activeElement;
  document.body.append(field);
  field.select();
  let done = false;
  try { done = document.execCommand("copy"); } catch { done = false; }
  field.remove();
  before?.focus?.({ preventScroll: true });
  return done;
}

async function copy(text, what, shown) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch { // no clipboard here, or not allowed
    done = copySelection(text);
  }
  if (done) return say(`${what} copied.`);
  if (shown) { // the last resort: the person copies what is selected
    for (let fold = shown.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (shown.select) shown.select();
    else getSelection().selectAllChildren(shown);
  }
  return say("This browser does not let a page copy. It is selected: press Ctrl+C.");
}

/** The editor takes one automation; the file has a list of them. */
function forEditor(yaml) {
  const lines = yaml.split("\n");
  const first = lines.findIndex((line) => line.startsWith("- "));
  return lines.slice(Math.max(first, 0)).map((line) => line.replace(/^(- | {2})/, "")).join("\n");
}

every(".copy").forEach((button) => button.addEventListener("click", () => {
  const code = document.getElementById(button.dataset.yaml);
  const editor = button.dataset.for === "editor";
  copy(editor ? forEditor(code.textContent) : code.textContent, editor ? "YAML for the editor" : "YAML", code);
}));

/** The YAML of the cards that can be seen and are not hidden. */
function allYaml() {
  const inside = one("#with-similar").checked ? "code[id]" : ":scope > .yaml code[id]";
  const codes = cards.filter((card) => !card.hidden && !isHidden(card)).flatMap((card) => every(inside, card));
  return codes.map((code) => code.textContent.replace(/\n*$/, "\n")).join("");
}

one("#copy-all").addEventListener("click", () => copy(allYaml(), "YAML of all shown suggestions"));
one("#download").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([allYaml()], { type: "application/yaml" }));
  const link = element("a", { href: address, download: "recommended.yaml" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

// --- Not for me
const hidden = new Set();
try { // a browser may keep nothing for pages on disk
  const kept = JSON.parse(localStorage.getItem(KEY) || "[]");
  if (Array.isArray(kept)) kept.filter((id) => typeof id === "string").forEach((id) => hidden.add(id));
} catch { /* then it is forgotten with the page */ }

function isHidden(card) {
  return hidden.has(words(card.dataset.ids)[0]);
}

function keep() {
  try { localStorage.setItem(KEY, JSON.stringify([...hidden])); } catch { /* as above */ }
}

function hide(card, yes) {
  for (const id of words(card.dataset.ids)) {
    if (yes) hidden.add(id);
    else hidden.delete(id);
  }
  keep();
  show();
}

for (const card of cards) {
  one(`#${card.id} .hide`).addEventListener("click", () => {
    const yes = !isHidden(card);
    const next = cards.slice(cards.indexOf(card) + 1).find((each) => !each.hidden);
    hide(card, yes);
    if (card.hidden) (next ? next.querySelector(".hide") : one("#copy-all")).focus({ preventScroll: true });
    say(yes ? "Hidden." : "Back in the list.");
  });
}
one("#show-hidden").addEventListener("click", (event) => {
  const pressed = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", String(pressed));
  show();
});
one("#forget").addEventListener("click", () => { hidden.clear(); keep(); show(); say("All are back."); });
one("#copy-without").addEventListener("click", () => {
  const box = one("#without-ids");
  copy(box.value, "Ids", box);
});

// --- Finding
function show() {
  const wanted = words(one("#search").value.trim().toLowerCase());
  const room = one("#room").value;
  const button = one("#show-hidden");
  const withHidden = button.getAttribute("aria-pressed") === "true";
  let seen = 0;
  for (const card of cards) {
    const names = card.dataset.names.toLowerCase();
    const fits = wanted.every((word) => names.includes(word)) && (!room || words(card.dataset.rooms).includes(room));
    const gone = isHidden(card);
    card.hidden = !fits || (gone && !withHidden);
    card.classList.toggle("gone", gone);
    card.querySelector(".hide").textContent = gone ? "Bring back" : "Not for me";
    seen += !card.hidden;
  }
  const gone = cards.filter(isHidden);
  one("#none").hidden = seen > 0 || !cards.length;
  one("#count").textContent =
    `${seen} of ${cards.length} shown${gone.length ? `, ${gone.length} marked as not for you` : ""}.`;
  button.hidden = !gone.length;
  button.textContent = withHidden ? "Hide them again" : "Show hidden";
  one("#without").hidden = !gone.length;
  one("#without-ids").value = gone.flatMap((card) => words(card.dataset.ids)).map((id) => `${id}\n`).join("");
  const faded = new Set(cards.filter((card) => card.hidden).flatMap((card) => words(card.dataset.edges)));
  every(".edge.new").forEach((edge) => edge.classList.toggle("faded", faded.has(edge.dataset.edge)));
}

one("#search").addEventListener("input", show);
one("#room").addEventListener("change", show);
one("#reset").addEventListener("click", () => {
  one("#search").value = "";
  one("#room").value = "";
  one("#show-hidden").setAttribute("aria-pressed", "true");
  show();
  one("#search").focus();
});

// --- The graph
let held = null; // what was tapped stays lit until something else is
const byEdge = new Map();
for (const card of cards) {
  for (const edge of words(card.dataset.edges)) byEdge.set(edge, [...(byEdge.get(edge) || []), card]);
}

function light(edges, nodes = []) {
  const lit = new Set(edges), ends = new Set(nodes);
  for (const edge of every(".edge", picture)) {
    const on = lit.has(edge.dataset.edge);
    edge.classList.toggle("lit", on);
    if (on) words(edge.dataset.ends).forEach((node) => ends.add(node));
  }
  every(".node", picture).forEach((node) => node.classList.toggle("lit", ends.has(node.dataset.node)));
  picture.classList.toggle("some", lit.size + ends.size > 0);
  const shownCards = new Set([...lit].flatMap((edge) => byEdge.get(edge) || []));
  cards.forEach((card) => card.classList.toggle("lit", shownCards.has(card)));
  every(".similar > ul > li").forEach((item) => item.classList.toggle("lit", lit.has(item.dataset.edge)));
}

/** The rules of these lines in words, with a way to their cards. */
function caption(edges) {
  const rows = new Map(every("#edges tr").map((row) => [row.dataset.edge, row.cells[0]]));
  const parts = edges.filter((edge) => rows.has(edge)).map((edge) => {
    const part = element("div", {}, ...rows.get(edge).cloneNode(true).childNodes);
    for (const card of byEdge.get(edge) || []) {
      if (card.hidden) continue;
      const button = element("button", { type: "button", textContent: "Show in list" });
      button.addEventListener("click", () => toCard(card, edge));
      part.append(element("br"), button);
    }
    return part;
  });
  one("#caption").replaceChildren(...(parts.length ? parts : ["Touch a device or a line to see its rules."]));
}

const still = matchMedia("(prefers-reduced-motion: reduce)");
const behavior = () => (still.matches ? "auto" : "smooth");

function toCard(card, edge) {
  const item = every(".similar > ul > li", card).find((each) => each.dataset.edge === edge);
  if (item && card.dataset.edge !== edge) item.closest("details").open = true;
  (item && card.dataset.edge !== edge ? item : card).scrollIntoView({ block: "center", behavior: behavior() });
  card.focus({ preventScroll: true });
}

/** Scrolls the picture, not the page, to a line. */
function reveal(edge) {
  const drawn = every(`.edge[data-edge="${edge}"]`, picture).find((each) => each.getClientRects().length);
  if (!drawn || picture.scrollHeight <= picture.clientHeight + 1) return;
  const box = drawn.getBoundingClientRect(), frame = picture.getBoundingClientRect();
  if (box.top >= frame.top && box.bottom <= frame.bottom) return;
  const middle = (box.top + box.bottom - frame.top - frame.bottom) / 2;
  picture.scrollBy({ top: middle, behavior: behavior() });
}

function edgesOf(thing) {
  if (thing.matches(".edge")) return [thing.dataset.edge];
  const node = thing.dataset.node;
  return [...new Set(every(".edge", picture).filter((edge) => words(edge.dataset.ends).includes(node)).map((edge) => edge.dataset.edge))];
}

function hold(edges, nodes, from) {
  held = from;
  light(edges, nodes);
  caption(edges);
}

if (picture) {
  const restore = () => {
    if (!held) return light([]);
    return held.matches(".suggestion") ? light(words(held.dataset.edges)) : light(edgesOf(held), [held.dataset.node].filter(Boolean));
  };
  for (const card of cards) {
    card.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "mouse") return;
      light(words(card.dataset.edges));
      reveal(card.dataset.edge);
    });
    card.addEventListener("pointerleave", restore);
    card.addEventListener("focusin", () => { light(words(card.dataset.edges)); reveal(card.dataset.edge); });
    card.addEventListener("focusout", restore);
    card.addEventListener("click", (event) => {
      if (event.target.closest("button, summary, pre")) return;
      hold(words(card.dataset.edges), [], card);
      reveal(card.dataset.edge);
    });
    card.querySelector(".locate")?.addEventListener("click", () => {
      hold(words(card.dataset.edges), [], card);
      const back = one("#back");
      back.hidden = false;
      back.onclick = () => { back.hidden = true; toCard(card, card.dataset.edge); };
      const drawn = every(`.edge[data-edge="${card.dataset.edge}"]`, picture).find((each) => each.getClientRects().length);
      if (picture.scrollHeight > picture.clientHeight + 1) {
        one("#graph").scrollIntoView({ block: "nearest", behavior: behavior() });
        reveal(card.dataset.edge);
      } else (drawn || picture).scrollIntoView({ block: "center", behavior: behavior() });
      one("#graph").focus({ preventScroll: true });
    });
  }
  for (const thing of every(".edge, .node", picture)) {
    thing.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "mouse") return;
      const edges = edgesOf(thing);
      light(edges, [thing.dataset.node].filter(Boolean));
      caption(edges);
    });
    thing.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") restore(); });
    thing.addEventListener("click", () => {
      const edges = edgesOf(thing);
      hold(edges, [thing.dataset.node].filter(Boolean), thing);
      const card = edges.flatMap((edge) => byEdge.get(edge) || []).find((each) => !each.hidden);
      const wide = matchMedia("(min-width: 60.01rem)").matches; // beside the list, which may follow
      if (wide && card) card.scrollIntoView({ block: "nearest", behavior: behavior() });
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hold([], [], null); });
}

// Paper cannot be clicked.
addEventListener("beforeprint", () => every("details.yaml, details.similar").forEach((each) => { each.open = true; }));
if (cards.length) show();
