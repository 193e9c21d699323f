// The home as a graph: triggers on the left, actions on the right, rules as labelled arrows.

import { drawn } from "./dom.js";
import { called, same } from "./home.js";

const HEIGHT = 46; // of a node
const LINE = 15; // of a label
const EDGE = 8; // around everything
const NARROW = 180; // between the sides: too narrow for labels, arrows get the numbers of their rules
const NEW = "+"; // instead of a number
const MOST = 150; // labels; more would be unreadable
const FACE = "system-ui, sans-serif"; // as in style.css, for measuring
const FONT = { name: `600 13px ${FACE}`, type: `11px ${FACE}`, label: `11.5px ${FACE}` };
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82, 0.12, 0.88]; // of a label on its arrow, best first

const pen = document.createElement("canvas").getContext("2d");

function wide(text, font) {
  pen.font = font;
  return pen.measureText(text).width;
}

function cut(text, font, most) {
  if (wide(text, font) <= most) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && wide(`${letters.join("")}…`, font) > most) letters.pop();
  return `${letters.join("")}…`;
}

/** Draw a home; returns a function that draws one more rule, dashed, or none. */
export function draw(into, home, width) {
  const nodes = laidOut(home, width);
  const gap = inner(nodes, width);
  const arrows = joined(home.rules, nodes);
  for (const arrow of arrows) {
    const numbers = arrow.rules.map((rule) => home.rules.indexOf(rule) + 1).join(", ");
    arrow.lines = gap < NARROW ? [numbers] : labelled(arrow.rules, gap);
  }
  const height = spread(nodes, arrows, gap);
  findPorts(arrows);
  const boxes = nodes.map(({ x, y, w }) => ({ x, y: y - HEIGHT / 2, w, h: HEIGHT }));
  const hint = drawn("g", {});
  const words = `${home.devices.length} devices and ${home.rules.length} rules, as listed beside`;
  const picture = drawn(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words },
    drawn("defs", {}, tip("tip"), tip("tip-hint")),
    ...arrows.map((arrow) => line(arrow, gap)),
    ...nodes.map(node),
    ...arrows.slice(0, MOST).map((arrow) => label(arrow, gap, boxes)), // above everything, so that they can be read
    hint,
  );
  into.replaceChildren(picture);
  into.dataset.numbered = gap < NARROW && arrows.length > 0;
  return (rule) => {
    const [arrow] = rule ? joined([rule], nodes) : [];
    for (const each of picture.querySelectorAll(".node"))
      each.classList.toggle("meant", Boolean(arrow) && [arrow.from.n, arrow.to.n].includes(Number(each.dataset.n)));
    if (!arrow) return hint.replaceChildren();
    arrow.lines = gap < NARROW ? [NEW] : labelled([rule], gap);
    arrow.starts = arrow.from.y + 4;
    arrow.ends = arrow.to.y + (arrow.from === arrow.to ? 18 : 4);
    arrow.hint = true;
    return hint.replaceChildren(line(arrow, gap), label(arrow, gap, [...boxes]));
  };
}

/** Devices with their sides and rows. */
function laidOut(home, width) {
  const w = width < 480 ? width * 0.36 : Math.min(190, width * 0.29);
  const nodes = home.devices.map((device, n) => ({ n, device, w, out: 0, in: 0 }));
  const find = (id) => nodes.find(({ device }) => same(device.id, id));
  const pairs = home.rules.map((rule) => [find(rule.trigger), find(rule.action_device)]);
  const ends = pairs.filter(([from, to]) => from && to && from !== to);
  for (const [from, to] of ends) {
    from.out += 1;
    to.in += 1;
  }
  const sides = [[], []];
  for (const each of nodes) if (each.out || each.in) sides[each.out >= each.in ? 0 : 1].push(each);
  for (const each of nodes) if (!each.out && !each.in) sides[sides[0].length <= sides[1].length ? 0 : 1].push(each);
  const rank = (side) => side.forEach((each, row) => (each.row = row - (side.length - 1) / 2));
  sides.forEach(rank);
  const middle = (each) => {
    const rows = ends.filter((pair) => pair.includes(each)).map(([a, b]) => (a === each ? b.row : a.row));
    return rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : each.row;
  };
  for (const side of [1, 0, 1, 0]) {
    // Each next to what it is joined with, so that few arrows cross.
    const wanted = new Map(sides[side].map((each) => [each, middle(each)]));
    sides[side].sort((a, b) => wanted.get(a) - wanted.get(b) || a.n - b.n);
    rank(sides[side]);
  }
  for (const right of [0, 1])
    for (const each of sides[right]) Object.assign(each, { right, x: right ? width - w - EDGE : EDGE });
  return nodes;
}

const inner = (nodes, width) => width - 2 * EDGE - 2 * (nodes[0]?.w ?? 0);

/** One arrow for all rules from one device to another. */
function joined(rules, nodes) {
  const arrows = new Map();
  for (const rule of rules) {
    const from = nodes.find(({ device }) => same(device.id, rule.trigger));
    const to = nodes.find(({ device }) => same(device.id, rule.action_device));
    if (!from || !to) continue;
    const key = `${from.n} ${to.n}`;
    if (!arrows.has(key)) arrows.set(key, { from, to, rules: [] });
    arrows.get(key).rules.push(rule);
  }
  return [...arrows.values()];
}

function labelled(rules, gap) {
  const most = gap - 12;
  return rules.flatMap(({ trigger_state, action }) => {
    const whole = `${trigger_state} → ${action}`;
    const lines = wide(whole, FONT.label) <= Math.min(most, 240) ? [whole] : [trigger_state, `→ ${action}`];
    return lines.map((text) => cut(text, FONT.label, most));
  });
}

const widest = (lines) => Math.max(...lines.map((text) => wide(text, FONT.label)));

/** Space the rows so that labels fit; returns the total height. */
function spread(nodes, arrows, gap) {
  const rows = Math.max(1, ...nodes.map(({ row }) => row * 2 + 1));
  const side = Math.max(1, Math.floor(gap / Math.max(60, ...arrows.map(({ lines }) => widest(lines) + 20))));
  const labels = arrows.reduce((sum, { lines }) => sum + lines.length * LINE + 8, 0);
  const step = Math.min(150, Math.max(HEIGHT + 18, (1.6 * labels) / side / rows));
  const height = (rows - 1) * step + HEIGHT + 2 * EDGE;
  for (const each of nodes) each.y = height / 2 + each.row * step;
  return height;
}

/** Where arrows leave and reach their devices: side by side, in the order of their origins. */
function findPorts(arrows) {
  const ports = new Map();
  for (const arrow of arrows) {
    for (const [end, node, other] of [["starts", arrow.from, arrow.to], ["ends", arrow.to, arrow.from]]) {
      if (!ports.has(node)) ports.set(node, []);
      ports.get(node).push({ arrow, end, toward: other.y + (end === "ends" ? 0.1 : 0) });
    }
  }
  for (const [node, all] of ports) {
    all.sort((a, b) => a.toward - b.toward);
    const step = Math.min(12, (HEIGHT - 12) / Math.max(1, all.length - 1));
    all.forEach(({ arrow, end }, place) => (arrow[end] = node.y + (place - (all.length - 1) / 2) * step));
  }
}

/** The four points of its curve. */
function curve({ from, to, starts, ends }, gap) {
  const [x1, x2] = [from, to].map((each) => (each.right ? each.x - 1 : each.x + each.w + 1));
  const beside = Math.min(gap * 0.6, 40 + Math.abs(starts - ends) * 0.5);
  const far = from.right === to.right ? beside : gap * 0.45;
  const [out, back] = [from, to].map((each) => (each.right ? -far : far));
  const [y1, y2] = from === to ? [starts - 4, ends + 4] : [starts, ends];
  return [[x1, y1], [x1 + out, y1], [x2 + back, y2], [x2 + (to.right ? -4 : 4), y2]];
}

function line(arrow, gap) {
  const [a, b, c, d] = curve(arrow, gap).map((point) => point.map((value) => value.toFixed(1)).join(" "));
  const [kind, end] = arrow.hint ? ["arrow hint", "url(#tip-hint)"] : ["arrow", "url(#tip)"];
  return drawn("path", { class: kind, d: `M${a} C${b}, ${c}, ${d}`, "marker-end": end });
}

function label(arrow, gap, taken) {
  const points = curve(arrow, gap);
  const [w, h] = [widest(arrow.lines) + 12, arrow.lines.length * LINE + 4];
  const bent = arrow.from.right === arrow.to.right;
  const inward = bent ? [8, w - 8][arrow.from.right] : w / 2; // beside the bend, or on the line
  const boxes = PLACES.flatMap((t) => {
    const s = 1 - t;
    const weights = [s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t];
    const [x, y] = [0, 1].map((axis) => points.reduce((sum, point, n) => sum + weights[n] * point[axis], 0));
    const far = (off) => Math.abs(t - 0.5) + Math.abs(off) / 20;
    return [0, -h / 2, h / 2].map((off) => ({ x: x - inward, y: y - h / 2 + off, w, h, far: far(off) }));
  });
  const price = (box) => box.far * 40 + taken.reduce((sum, other) => sum + shared(box, other), 0);
  const box = boxes.reduce((best, each) => (price(each) < price(best) ? each : best));
  taken.push(box);
  const texts = arrow.lines.map((text, n) =>
    drawn("text", { x: box.x + w / 2, y: box.y + 13 + n * LINE, "text-anchor": "middle" }, text),
  );
  const card = drawn("rect", { x: box.x, y: box.y, width: w, height: h, rx: 5 });
  const words = arrow.rules.map((rule) => `${rule.trigger_state} → ${rule.action}`).join("\n");
  return drawn("g", { class: arrow.hint ? "label hint" : "label" }, drawn("title", {}, words), card, ...texts);
}

function shared(a, b) {
  const x = Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x) + 6; // nearly touching is too close
  const y = Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y) + 4;
  return x > 0 && y > 0 ? x * y : 0;
}

function node({ n, device, x, y, w }) {
  const texts = [["name", called(device), -2], ["type", device.type, 14]].map(([kind, text, below]) =>
    drawn("text", { class: kind, x: x + 12, y: y + below }, cut(text, FONT[kind], w - 22)),
  );
  const card = drawn("rect", { x, y: y - HEIGHT / 2, width: w, height: HEIGHT, rx: 10 });
  const title = drawn("title", {}, `${called(device)} (${device.type})`);
  return drawn("g", { class: "node", "data-n": n }, title, card, ...texts);
}

function tip(id) {
  const size = { viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse" };
  return drawn("marker", { id, ...size, orient: "auto" }, drawn("path", { d: "M0.5 0.8 7 4 0.5 7.2Z", class: id }));
}
