// The lists of the pass explorer: the text diff, edits, near misses and laws.

import { h } from "./dom.js";
import { number } from "./format.js";

const CHUNK = 200;
/** @type {Record<string, { glyph: string, style: string }>} */
const KINDS = {
  "+": { glyph: "+", style: " wb-add" }, "-": { glyph: "−", style: " wb-del" }, "~": { glyph: "~", style: " wb-mod" }, "=": { glyph: "", style: "" },
};

/** @typedef {(id: number) => void} Show */

/**
 * Elements for the first rows, and a button that shows more.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => HTMLElement} make
 * @param {number} from
 * @returns {HTMLElement[]}
 */
function some(items, make, from = 0) {
  const rows = items.slice(from, from + CHUNK).map(make), left = items.length - from - CHUNK;
  if (left <= 0) return rows;
  const more = h("button", { type: "button", class: "wb-more", onclick: () => more.replaceWith(...some(items, make, from + CHUNK)) }, `Show ${Math.min(CHUNK, left)} of ${left} more`);
  return [...rows, more];
}

/**
 * One line of the diff; a click selects its instruction, unless text is being selected.
 * @param {{ glyph: string, style: string }} kind
 * @param {number} id
 * @param {string} text
 * @param {Show} show
 */
const line = ({ glyph, style }, id, text, show) =>
  h("div", { class: "wb-row" + style, "data-id": id, tabIndex: -1, onclick: () => { if (getSelection()?.isCollapsed !== false) show(id); } },
    h("span", { class: "wb-glyph" }, glyph), h("span", { class: "wb-text" }, text));

/**
 * The text diff: rows whose id, operation or inputs changed, in the program's order.
 * @param {DiffRow[]} rows
 * @param {Show} show
 */
function diffRows(rows, show) {
  if (!rows.length) return [h("p", { class: "wb-hint" }, "This pass changed nothing.")];
  return some(rows, ([kind, id, before, after]) => {
    if (kind === "…") return h("div", { class: "wb-row wb-gap" }, h("span", { class: "wb-glyph" }), before);
    if (after === undefined) return line(KINDS[kind], id, before, show);
    return h("div", { class: "wb-both" }, line(KINDS["~"], id, before, show), line({ glyph: "→", style: " wb-mod wb-to" }, id, after, show));
  });
}

/**
 * The text diff as text.
 * @param {DiffRow[]} rows
 */
const diffText = (rows) => rows.flatMap(([kind, , before, after]) =>
  (kind === "~" ? ["- " + before, "+ " + after] : kind === "…" ? [`@@ ${before} @@`] : [(kind === "=" ? " " : kind) + " " + before])).join("\n");

const spring = () => h("span", { class: "wb-spring" });

/** @param {...Child} parts */
const row = (...parts) => h("div", { class: "wb-line" }, parts);

/** The source location of a rule. @param {Sited} at */
const where = (at) => h("span", { class: "wb-place" }, at.file ? `${at.file.split("/").pop()}:${at.line}` : "");

/**
 * @param {Edit[]} edits
 * @param {number | null} chosen
 * @param {(index: number) => void} open
 */
function editList(edits, chosen, open) {
  if (!edits.length) return [h("p", { class: "wb-hint" }, "This pass made no edits.")];
  return some(edits, (e) => h("div", { class: "wb-item" + (e.index === chosen ? " wb-chosen" : ""), "data-edit": e.index, tabIndex: -1, onclick: () => open(e.index) },
    row(h("span", { class: "wb-soft wb-count" }, e.index + 1), h("strong", {}, e.rule), spring(), h("span", { class: "wb-soft" }, `${number(e.ms)} ms`)),
    e.what ? h("code", { class: "wb-say" }, e.what) : null,
    row(e.law ? h("span", { class: "wb-soft wb-law" }, e.law) : null, spring(), where(e))));
}

/**
 * @param {Miss[]} misses
 * @param {(id: number) => string} name
 * @param {Show} show
 */
function missList(misses, name, show) {
  if (!misses.length) return [h("p", { class: "wb-hint" }, "No rule met its pattern and declined.")];
  return some(misses, (m) => h("div", { class: "wb-item", tabIndex: -1, onclick: () => show(m.instruction) },
    row(h("strong", {}, m.rule), spring(), where(m)), h("div", {}, m.reason), h("div", { class: "wb-soft" }, `at ${name(m.instruction)}`)));
}

/** @param {Law[]} laws */
function lawList(laws) {
  if (!laws.length) return [h("p", { class: "wb-hint" }, "No rule with a law was applied by this pass.")];
  return some(laws, (l) => h("div", { class: "wb-item" },
    row(h("strong", {}, l.rule), spring(), h("span", { class: "wb-soft" }, `${l.count} ×`)), h("code", { class: "wb-say" }, l.law), row(spring(), where(l))));
}

/**
 * The outcome of lowering, per instruction; parts of a kernel are shown only in the inspector.
 * @param {Lowered[]} lowered
 * @param {string} summary
 * @param {(id: number) => string} name
 * @param {Show} show
 */
function loweredList(lowered, summary, name, show) {
  const rows = lowered.filter((r) => r.kind !== "part");
  if (!rows.length) return [h("p", { class: "wb-hint" }, summary)];
  return some(rows, (r) => h("div", { class: "wb-item", "data-id": r.id, tabIndex: -1, onclick: () => show(r.id) },
    row(h("strong", {}, name(r.id)), spring(), h("span", { class: "wb-soft" }, r.kind)),
    h("code", { class: "wb-say" }, r.became), r.place ? h("div", { class: "wb-soft" }, r.place) : null));
}

export { diffRows, diffText, editList, lawList, loweredList, missList };
