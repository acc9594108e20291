// The lists of the pass explorer: the text diff, edits, near misses and laws.

import { breakable, div, h, hint, soft, spring } from "./dom.js";
import { linked, refOf } from "./refs.js";
import { count, duration } from "./format.js";

const CHUNK = 200;
/** @type {Record<string, { glyph: string, style: string }>} */
const KINDS = {
  "+": { glyph: "+", style: " wb-add" }, "-": { glyph: "−", style: " wb-del" }, "~": { glyph: "~", style: " wb-mod" }, "=": { glyph: "", style: "" },
};

/** @typedef {(id: number) => void} Show */
/** @typedef {Map<string, number>} Ids by name */

/**
 * Elements for the first rows, and a button that shows more.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => HTMLElement} make
 * @param {number} from
 * @returns {HTMLElement[]}
 */
function some(items, make, from = 0) {
  const end = from + CHUNK, rows = items.slice(from, end).map(make), left = items.length - end;
  if (left <= 0) return rows;
  const more = h("button", { class: "wb-more", onclick: () => more.replaceWith(...some(items, make, end)) }, `Show ${Math.min(CHUNK, left)} of ${left} more`);
  return [...rows, more];
}

/**
 * One line of the diff; a click selects its instruction, unless text is being selected.
 * @param {{ glyph: string, style: string }} kind
 * @param {number} id
 * @param {string} text
 * @param {Show} show
 * @param {Ids} ids
 */
const line = ({ glyph, style }, id, text, show, ids) =>
  h("div", { class: "wb-row" + style, "data-id": id, tabIndex: -1, onclick: (/** @type {Event} */ e) => { if (getSelection()?.isCollapsed !== false) show(refOf(e, id)); } },
    h("span", { class: "wb-glyph" }, glyph), h("span", { class: "wb-text" }, linked(text, null, ids)));

/**
 * The text diff: rows whose id, operation or inputs changed, in the program's order.
 * @param {DiffRow[]} rows
 * @param {Show} show
 * @param {[Ids, Ids]} ids before and after
 */
function diffRows(rows, show, [old, now]) {
  if (!rows.length) return [hint("This pass changed nothing.")];
  return some(rows, ([kind, id, before, after]) => {
    if (kind === "…") return div("row wb-gap", h("span", { class: "wb-glyph" }), before);
    if (after === undefined) return line(KINDS[kind], id, before, show, kind === "-" ? old : now);
    return div("both", line(KINDS["~"], id, before, show, old), line({ glyph: "→", style: " wb-mod wb-to" }, id, after, show, now));
  });
}

/**
 * The text diff as text.
 * @param {DiffRow[]} rows
 */
const diffText = (rows) => rows.flatMap(([kind, , before, after]) =>
  (kind === "~" ? ["- " + before, "+ " + after] : kind === "…" ? [`@@ ${before} @@`] : [(kind === "=" ? " " : kind) + " " + before])).join("\n");

/** @param {string} name */
const ruleName = (name) => h("strong", {}, breakable(name));

/** @param {...Child} parts */
const row = (...parts) => div("line", parts);

/**
 * The source location of a rule, which opens to its text with the line marked; nothing if no rule was at work.
 * @param {Sited} site
 * @param {RuleSources} sources
 */
function where({ file, line: at }, sources) {
  const place = `${file.split("/").pop()}:${at}`, found = sources[`${file}:${at}`];
  if (!file || !found) return file ? div("place", place) : null;
  return h("details", { class: "wb-place" }, h("summary", { tabIndex: -1 }, place),
    h("pre", {}, found[1].split("\n").map((text, k) => (found[0] + k === at ? h("mark", {}, text + "\n") : text + "\n"))));
}

/**
 * @param {Detail} detail
 * @param {number | null} chosen
 * @param {(index: number | null) => void} open
 * @param {boolean} parted whether the edits are those of a pass
 */
function editList({ edits, sources }, chosen, open, parted) {
  if (!edits.length) return [hint("This pass made no edits.")];
  /** @type {(k: number | null, ...parts: Child[]) => HTMLElement} */
  const item = (k, ...parts) => h("div", { class: "wb-item" + (k === chosen ? " wb-chosen" : ""), "data-edit": k ?? "", tabIndex: -1, onclick: () => open(k) }, parts);
  return [...(parted ? [item(null, h("strong", {}, "Whole pass"))] : []), ...some(edits, (e) => item(e.index,
    row(h("span", { class: "wb-soft wb-count" }, e.index + 1), ruleName(e.rule), spring(), e.ms ? soft(duration(e.ms)) : null),
    e.what ? h("code", { class: "wb-say" }, e.what) : null,
    e.law && e.law !== e.what ? div("soft wb-law", e.law) : null, where(e, sources)))];
}

/**
 * @param {Detail} detail
 * @param {(id: number) => string} name
 * @param {Show} show
 */
function missList({ misses, sources }, name, show) {
  if (!misses.length) return [hint("No rule met its pattern and declined.")];
  return some(misses, (m) => h("div", { class: "wb-item", tabIndex: -1, onclick: (/** @type {Event} */ e) => show(refOf(e, m.instruction)) },
    ruleName(m.rule), h("div", {}, linked(m.reason, name, null)), div("soft", `at ${name(m.instruction)}`), where(m, sources)));
}

/** @param {Detail} detail */
function lawList({ laws, sources }) {
  if (!laws.length) return [hint("No rule with a law was applied by this pass.")];
  return some(laws, (l) => h("div", { class: "wb-item", tabIndex: -1 },
    row(ruleName(l.rule), spring(), soft(`${l.count} ×`)), h("code", { class: "wb-say" }, l.law), where(l, sources)));
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
  if (!rows.length) return [hint(summary)];
  return some(rows, (r) => h("div", { class: "wb-item", "data-id": r.id, tabIndex: -1, onclick: () => show(r.id) },
    row(h("strong", {}, name(r.id)), spring(), soft(r.kind)),
    h("code", { class: "wb-say" }, r.became), r.place ? div("soft", r.place) : null));
}

/**
 * The facts of a step beside the timeline: its name, instructions, edits and time.
 * @param {Step} step
 * @param {number} k
 * @param {number} n steps in all
 * @returns {(string | Node)[]}
 */
function stepFacts({ name, before, after, edits, ms }, k, n) {
  const figure = (/** @type {string} */ text) => h("span", { class: "wb-number" }, text);
  return [soft(`${k}/${n} `), h("strong", {}, name), " ▾",
    figure(before === after ? count(after, "instruction") : `${before.toLocaleString("en")} → ${count(after, "instruction")}`),
    figure(count(edits, "edit")), figure(duration(ms))];
}

export { diffRows, diffText, editList, lawList, loweredList, missList, stepFacts };
