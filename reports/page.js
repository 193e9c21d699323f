"use strict";
// Sorting and filtering of tables; everything else on the page does without.

const FOLDED = 20; // rows of a long table before it is opened
const DATA = ["data", "data set"]; // the heads of a column that says the data set

/** What a cell is sorted by: a number where it has one, its text, or null where it is empty. */
function valueOf(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  if (text === "" || text === "–" || text === "nan") return null;
  const number = Number(text.replace(/^(-?)inf$/, "$1Infinity"));
  return Number.isNaN(number) ? text : number;
}

/** Smaller first; numbers before texts. */
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, "en", { numeric: true });
}

/** Sorts the rows by a column, equal ones as they were; empty cells stay at the end whichever the direction. */
function sortRows(rows, column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const values = new Map(rows.map((row) => [row, valueOf(row.cells[column])]));
  return rows.slice().sort((one, other) => {
    const a = values.get(one), b = values.get(other);
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * compare(a, b);
  });
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function prepare(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  const frame = table.closest(".table");
  const state = { text: "", data: "", open: original.length <= FOLDED };
  const dataColumn = heads.findIndex((head) => DATA.includes(head.textContent.trim().toLowerCase()));
  const methodColumn = heads.findIndex((head) => head.textContent.trim() === "method");
  const count = element("output");
  const more = element("button", { type: "button", className: "more" });

  function show() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    let fitting = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      const fits =
        words.every((word) => text.includes(word)) &&
        (!state.data || row.cells[dataColumn].textContent === state.data);
      fitting += fits;
      row.hidden = !fits || (!state.open && fitting > FOLDED);
    }
    if (dataColumn >= 0) {
      // The choice above says which data; a phone has no room to repeat it.
      for (const row of [table.tHead.rows[0], ...original]) row.cells[dataColumn].hidden = Boolean(state.data);
    }
    const folded = !state.open && fitting > FOLDED;
    count.textContent = fitting ? `${folded ? FOLDED : fitting} of ${original.length} rows` : "no row matches";
    more.hidden = fitting <= FOLDED;
    more.textContent = state.open ? `Show the first ${FOLDED} rows` : `Show all ${fitting} rows`;
    more.setAttribute("aria-expanded", String(state.open));
  }

  /** The name of a method stays in sight, at whichever edge is nearer, while the rest of its row is scrolled. */
  function pin(column) {
    for (const row of [table.tHead.rows[0], ...original]) row.cells[column]?.classList.add("pinned");
  }

  function sortable() {
    for (const [column, head] of heads.entries()) {
      const button = element("button", { type: "button" }, ...head.childNodes);
      button.addEventListener("click", () => {
        const usual = head.classList.contains("number") ? "descending" : "ascending";
        const other = usual === "descending" ? "ascending" : "descending";
        const direction = head.getAttribute("aria-sort") === usual ? other : usual;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", direction);
        body.append(...sortRows(original, column, direction));
        show();
      });
      head.append(button);
    }
  }

  function filterable() {
    const input = element("input", { type: "search", placeholder: "method, data, …" });
    input.addEventListener("input", () => { state.text = input.value; show(); });
    const tools = element("div", { className: "tools" }, element("label", {}, "Filter", input));
    const sets = dataColumn < 0 ? [] : [...new Set(original.map((row) => row.cells[dataColumn].textContent))];
    if (sets.length > 1) {
      const choice = element("select", {}, element("option", { value: "" }, "all"));
      choice.append(...sets.map((name) => element("option", { value: name }, name)));
      if (methodColumn >= 0) state.data = choice.value = sets[0]; // methods on different data are not to be compared
      choice.addEventListener("change", () => { state.data = choice.value; show(); });
      tools.append(element("label", {}, "Data", choice));
    }
    count.setAttribute("aria-live", "polite");
    tools.append(count);
    frame.before(tools);
  }

  more.addEventListener("click", () => { state.open = !state.open; show(); });
  frame.after(more);
  if (table.classList.contains("sortable")) {
    sortable();
    filterable();
  }
  pin(methodColumn);
  show();
}

document.querySelectorAll(".table table").forEach(prepare);
// Paper cannot be clicked or scrolled: what the summary says in numbers is printed, and every figure.
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("img").forEach((each) => { each.loading = "eager"; });
  document.querySelectorAll(".points details").forEach((each) => { each.open = true; });
});
