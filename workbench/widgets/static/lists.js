// The lists of the pass explorer: the text diff, edits, near misses and laws.

import { h, number } from "./dom.js";

const CHUNK = 200;

/** Elements for the first rows, and a button that brings more. */
function some(items, make, from = 0) {
  const rows = items.slice(from, from + CHUNK).map(make), left = items.length - from - CHUNK;
  if (left > 0) {
    const more = h("button", { type: "button", class: "wb-more", onclick: () => more.replaceWith(...some(items, make, from + CHUNK)) }, `Show ${Math.min(CHUNK, left)} of ${left} more`);
    rows.push(more);
  }
  return rows;
}

/** The text diff: rows whose id, operation or inputs changed, in the program's order. */
function diffRows(view) {
  const line = (kind, id, text) => h("div", {
    class: "wb-row" + ({ "+": " wb-add", "-": " wb-del", "~": " wb-mod" }[kind] ?? ""), "data-id": id, onclick: () => getSelection()?.isCollapsed === false || view.show(id),
  }, h("span", { class: "wb-glyph" }, { "-": "−", "=": "" }[kind] ?? kind), h("span", { class: "wb-text" }, text));
  const make = ([kind, id, a, b]) => {
    if (kind === "…") return h("div", { class: "wb-row wb-gap" }, h("span", { class: "wb-glyph" }), a);
    if (kind !== "~") return line(kind, id, a);
    return h("div", { class: "wb-both" }, line("~", id, a), h("div", { class: "wb-row wb-mod wb-to", "data-id": id, onclick: () => view.show(id) }, h("span", { class: "wb-glyph" }, "→"), h("span", { class: "wb-text" }, b)));
  };
  const rows = view.detail.diff;
  view.diff.replaceChildren(...(rows.length ? some(rows, make) : [h("p", { class: "wb-hint" }, "This pass changed nothing.")]));
  view.diff.scrollTop = 0;
}

const where = (e) => h("span", { class: "wb-place" }, e.file ? `${e.file.split("/").pop()}:${e.line}` : "");

function editList(view) {
  const { edits } = view.detail;
  if (!edits.length) return [h("p", { class: "wb-hint" }, "This pass made no edits.")];
  return some(edits, (e) => h("div", { class: "wb-item" + (e.index === view.edit ? " wb-chosen" : ""), "data-edit": e.index, onclick: () => view.showEdit(e.index) },
    h("div", { class: "wb-line" }, h("span", { class: "wb-soft wb-count" }, e.index + 1), h("strong", {}, e.rule), h("span", { class: "wb-spring" }), h("span", { class: "wb-soft" }, `${number(e.ms)} ms`)),
    e.what ? h("code", { class: "wb-say" }, e.what) : null,
    h("div", { class: "wb-line" }, e.law ? h("span", { class: "wb-soft wb-law" }, e.law) : null, h("span", { class: "wb-spring" }), where(e))));
}

function missList(view) {
  const { misses } = view.detail;
  if (!misses.length) return [h("p", { class: "wb-hint" }, "No rule met its pattern and declined.")];
  return some(misses, (m) => h("div", { class: "wb-item", onclick: () => view.show(m.instruction) },
    h("div", { class: "wb-line" }, h("strong", {}, m.rule), h("span", { class: "wb-spring" }), where(m)),
    h("div", {}, m.reason), h("div", { class: "wb-soft" }, `at ${view.now.before.node(m.instruction) ? view.now.before.name(m.instruction) : view.now.after.name(m.instruction)}`)));
}

function lawList(view) {
  const { laws } = view.detail;
  if (!laws.length) return [h("p", { class: "wb-hint" }, "No rule with a law was applied by this pass.")];
  return some(laws, (l) => h("div", { class: "wb-item" },
    h("div", { class: "wb-line" }, h("strong", {}, l.rule), h("span", { class: "wb-spring" }), h("span", { class: "wb-soft" }, `${l.count} ×`)),
    h("code", { class: "wb-say" }, l.law), h("div", { class: "wb-line" }, h("span", { class: "wb-spring" }), where(l))));
}

/** What lowering made of each instruction; those that a kernel has inside are left to the inspector. */
function loweredList(view) {
  const rows = view.detail.lowered.filter((r) => r.kind !== "part");
  if (!rows.length) return [h("p", { class: "wb-hint" }, view.detail.summary)];
  return some(rows, (r) => h("div", { class: "wb-item", "data-id": r.id, onclick: () => view.show(r.id) },
    h("div", { class: "wb-line" }, h("strong", {}, view.now.after.name(r.id)), h("span", { class: "wb-spring" }), h("span", { class: "wb-soft" }, r.kind)),
    h("code", { class: "wb-say" }, r.became), r.place ? h("div", { class: "wb-soft" }, r.place) : null));
}

export { diffRows, editList, lawList, loweredList, missList };
