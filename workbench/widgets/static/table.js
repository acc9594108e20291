// A table of instructions: columns of one kind each, sorted by a click, linked with the selection.

import { bytes, count, known, number, percent, wordsOf } from "./format.js";
import { div, h, heading, moved, searchField, soft, spring, take, targetOf } from "./dom.js";
import { linked, refOf } from "./refs.js";

const SHOWN = 500, TEXTS = new Set(["text", "wide", "prose"]);

/**
 * The text of a cell.
 * @param {TableColumn} column
 * @param {any} value
 */
function cellText(column, value) {
  if (!known(value) || value === "") return "";
  switch (column.kind) {
    case "bar": case "number": case "error": return typeof value === "number" ? number(value) : String(value);
    case "percent": return percent(value);
    case "bytes": return bytes(value);
    case "count": return value ? value.toLocaleString("en") : "0";
    case "span": return `${value[0]}–${value[1] - 1}`;
    default: return String(value);
  }
}

/**
 * The value that a column is sorted by; words stand above all numbers, unknown ones below.
 * @param {TableColumn} column
 * @param {any} value
 */
function sortKey(column, value) {
  if (!known(value)) return -Infinity;
  if (column.kind === "span") return value[0];
  if (TEXTS.has(column.kind)) return String(value);
  return typeof value === "number" ? value : Infinity;
}

/**
 * Rows with all words, in the order of a column.
 * @param {TableData} data
 * @param {string} words
 * @param {number | null} by
 * @param {number} way
 */
function arranged(data, words, by, way) {
  const wanted = wordsOf(words);
  /** @type {(row: TableRow) => string} */
  const text = (row) => row.cells.map((c, k) => cellText(data.columns[k], c)).join(" ").toLowerCase();
  const rows = wanted.length ? data.rows.filter((row) => wanted.every((w) => text(row).includes(w))) : [...data.rows];
  if (by === null) return rows;
  const column = data.columns[by], empty = rows.filter((r) => !known(r.cells[by]));
  const full = rows.filter((r) => known(r.cells[by])).toSorted((a, b) => {
    const x = sortKey(column, a.cells[by]), y = sortKey(column, b.cells[by]);
    return way * (x < y ? -1 : x > y ? 1 : 0);
  });
  return [...full, ...empty];
}

/** One pane's table. */
class Table {
  /**
   * @param {string} title
   * @param {(id: number) => void} select
   * @param {(id: number | null, traits: Record<string, unknown>) => void} go select, and set more traits
   * @param {(text: string) => void} say
   */
  constructor(title, select, go, say) {
    this.title = title;
    this.onselect = select;
    this.go = go;
    this.say = say;
    /** @type {TableData | null} */
    this.data = null;
    /** @type {number | null} */
    this.by = null;
    this.way = 1;
    this.shown = SHOWN;
    /** Whether each column has a known value. @type {boolean[]} */
    this.kept = [];
    /** @type {number | null} */
    this.selected = null;
    this.filter = searchField("Filter rows", `Filter ${title}`, () => this.draw());
    this.said = soft();
    this.notes = div("notes");
    this.body = div("tableau wb-full");
    this.el = div("tablepane", div("bar", this.said, spring(), this.filter), this.notes, this.body);
  }

  /** @param {TableData} data */
  show(data) {
    this.data = data;
    this.by = data.sort;
    this.way = data.way;
    this.shown = SHOWN;
    this.said.textContent = data.said;
    this.notes.replaceChildren(...(data.notes ?? []).map((n, k) => h("div", { class: "wb-note", onclick: () => this.choose(n.id) },
      h("b", {}, `${k + 1} `), linked(n.text, null, new Map(Object.entries(n.names)), (id) => this.node(id)), " ", n.edit && this.edit(n.id, n.edit))));
    this.draw();
  }

  draw() {
    const { data } = this;
    if (!data) return;
    const rows = arranged(data, this.filter.value, this.by, this.way);
    this.kept = data.columns.map((_, k) => !data.rows.length || data.rows.some((r) => known(r.cells[k]) && r.cells[k] !== ""));
    const most = data.columns.map((c, k) => (c.kind === "bar" || c.bar ? Math.max(1e-300, ...data.rows.map((r) => Number(r.cells[k]) || 0)) : 0));
    const head = h("tr", {}, data.columns.map((c, k) => this.kept[k] && heading("wb-t-" + c.kind, c.name, c.title ?? c.name, k === this.by ? this.way : 0, () => this.sort(k))));
    const body = h("tbody", {}, rows.slice(0, this.shown).map((r) => this.line(r, most)));
    if (!rows.length) body.append(h("tr", {}, h("td", { colSpan: data.columns.length, class: "wb-hint" }, data.rows.length ? "No row has these words." : "There is nothing to list.")));
    const more = rows.length - this.shown;
    this.body.replaceChildren(h("table", { "aria-label": this.title, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) }, h("thead", {}, head), body),
      more > 0 ? h("button", { class: "wb-more", onclick: () => { this.shown += SHOWN; this.draw(); } }, `Show ${Math.min(more, SHOWN)} of ${count(more, "further row")}`) : "");
    this.mark(false);
  }

  /**
   * @param {TableRow} row
   * @param {number[]} most
   */
  line(row, most) {
    const data = /** @type {TableData} */ (this.data), { columns } = data, ids = new Map(Object.entries(data.ids ?? {}));
    const cells = columns.map((c, k) => {
      if (!this.kept[k]) return null;
      const value = row.cells[k], text = cellText(c, value);
      if (c.kind === "span" && known(value)) return h("td", { class: "wb-t-span", title: text }, this.span(value, c.of ?? 1));
      const part = most[k] ? (100 * (Number(value) || 0)) / most[k] : 0;
      const style = part ? `background: linear-gradient(90deg, var(--wb-share) ${part}%, transparent 0)` : undefined;
      const wrong = c.kind === "error" && known(c.tolerance) && (typeof value === "string" || value > c.tolerance);
      return h("td", { class: `wb-t-${c.kind}${wrong ? " wb-beyond" : ""}`, title: c.kind === "wide" ? text : undefined, style }, wrong ? "! " + text : c.kind === "prose" ? linked(text, null, ids) : c.nodes ? this.nodes(row.id, text) : text);
    });
    return h("tr", { tabIndex: -1, "data-id": row.id, onclick: (/** @type {Event} */ e) => this.choose(refOf(e, row.id)) }, cells);
  }

  /**
   * Nodes of the model, as links to their instruction in the graph.
   * @param {number} id
   * @param {string} text
   */
  nodes(id, text) { return text.split(", ").map((name, k) => [k ? ", " : "", h("button", { class: "wb-link", tabIndex: -1, onclick: () => this.node(id) }, name)]); }

  /**
   * A link to an edit in the passes.
   * @param {number} id
   * @param {[step: number, edit: number, words: string]} edit
   */
  edit(id, [passes_step, passes_edit, words]) {
    return h("button", { class: "wb-link", onclick: () => this.go(id, { pane: "passes", passes_step, passes_edit }) }, words);
  }

  /** Show an instruction in the graph. @param {number} id */
  node(id) { this.go(id, { pane: "graph" }); }

  /**
   * A lifetime as a bar along the program.
   * @param {[number, number]} value
   * @param {number} of
   */
  span([from, to], of) {
    return div("span", h("i", { style: `left: ${(100 * from) / of}%; width: max(2px, ${(100 * (to - from)) / of}%)` }));
  }

  /** @param {number} k */
  sort(k) {
    const { kind } = /** @type {TableData} */ (this.data).columns[k];
    [this.by, this.way] = this.by === k ? [k, -this.way] : [k, TEXTS.has(kind) || kind === "span" ? 1 : -1];
    this.draw();
    /** @type {HTMLElement | null} */ (this.body.querySelectorAll("th button")[this.kept.slice(0, k).filter(Boolean).length])?.focus();
    this.say(`Sorted by ${/** @type {TableData} */ (this.data).columns[k].name}, ${this.way > 0 ? "ascending" : "descending"}`);
  }

  /** @param {number} id */
  choose(id) {
    this.select(id);
    this.onselect(id);
  }

  /** Follow a selection from elsewhere. @param {number | null} id */
  select(id) {
    this.selected = id;
    this.mark(true);
  }

  /** The lines of the table. @returns {HTMLElement[]} */
  lines() { return [...this.body.querySelectorAll("tr")].filter((el) => el.dataset.id !== undefined); }

  /** @param {boolean} scroll */
  mark(scroll) {
    const lines = this.lines(), ids = new Map((this.data?.rows ?? []).map((r) => [r.id, r.ids]));
    const here = lines.find((l) => Number(l.dataset.id) === this.selected)
      ?? lines.find((l) => this.selected !== null && ids.get(Number(l.dataset.id))?.includes(this.selected));
    for (const line of lines) {
      line.classList.toggle("wb-chosen", line === here);
      line.setAttribute("aria-selected", String(line === here));
      line.tabIndex = line === (here ?? lines[0]) ? 0 : -1;
    }
    if (scroll) here?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const lines = this.lines(), at = lines.indexOf(targetOf(e)), to = moved(e, at, lines.length);
    if (at >= 0 && e.key === "Enter") this.node(Number(lines[at].dataset.id));
    if (at < 0 || to === undefined) return;
    this.choose(Number(lines[to].dataset.id));
    lines[to].focus();
    take(e);
  }
}

export { Table, arranged, cellText };
