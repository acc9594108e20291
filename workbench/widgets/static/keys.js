// The dialog that shows the keys of a view and the language of its search.

import { button, h } from "./dom.js";

/** @typedef {[keys: string, does: string]} Row */

/** @type {Row[]} */
const GRAPH_KEYS = [
  ["↑ ↓ ← →", "go along edges, or to the neighbour on the same row"], ["Enter, Space", "open a group, or select"], ["Esc", "close the group around the node; without one, clear the selection"],
  ["+ − 0", "zoom in, zoom out, show everything"], ["Page Up, Page Down", "scroll"], ["m", "show or hide the minimap"],
  ["/", "search"], ["n, N", "next and previous hit"], ["i", "isolate the hits, or the selection"], ["h", "hide the selection"],
  ["1 … 9", "the neighbourhood of the selection: that many edges up and down"], ["p", "all paths between the last two selections"], ["b", "bookmark the selection"], ["a", "show all again"], ["?", "these keys"],
];
/** @type {Row[]} */
const PASS_KEYS = [["f, r", "next and previous pass that changed something"], ["Home, End", "first and last pass"], ["← →", "previous and next edit, before the first the whole pass; on the timeline, pass"], ["l", "list of passes"], ["s", "source of the chosen edit's rule"],
  ["Shift+click, w", "choose a second node; ask why the last two selections are not one kernel"], ["↑ ↓ in a list", "go from row to row"]];
/** @type {Row[]} */
const KERNEL_KEYS = [
  ["↑ ↓, Home, End", "go from kernel to kernel"], ["← →", "on the tabs: source, module, machine code, log, search"], ["/", "search the visible text"],
  ["Enter, Shift+Enter", "in the search: next and previous line"], ["Esc", "clear the search or the filter"], ["?", "these keys"],
];
/** @type {Row[]} */
const TENSOR_KEYS = [["↑ ↓ ← →", "go from element to element of the slice"], ["?", "these keys"]];
/** @type {Row[]} */
const QUERY_WORDS = [
  ["relu block1", "both words, anywhere"], ["relu or tanh, -mul, (…)", "either, without, grouped"], ['"two words"', "exactly this text"], ["/conv_\\d+/i", "a regular expression"],
  ["op:dot  op:conv*", "the operation; * is any text"], ["name: source: node: scope:", "printed name, nodes of the model, path of the scope"], ["dtype:half  shape:1x*x56x56", "type and sizes; * is any size, ... any number of sizes"],
  ["attr:axis=1  attr:group>1", "attributes"], ["family:reduce  mark:added", "family; change by the pass"], ["rule: pass:", "rules of the pass, the pass that made it"], ["kernel:gemm", "the kernel that it became"],
  ["ms>0.1  error>1e-3  value:0..1", "the numbers that are shown as colours"], ["@13  #2443", "printed name, id"],
];

/** @param {string} title @param {Row[]} rows */
const table = (title, rows) => h("section", {}, h("h2", {}, title), h("dl", {}, rows.map(([keys, does]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, does)])));

/**
 * A button that opens the dialog, and the dialog.
 * @param {Record<string, Row[]>} sections
 */
function keysDialog(sections) {
  const body = h("div", { class: "wb-sections" }, Object.entries(sections).map(([title, rows]) => table(title, rows)));
  const dialog = h("dialog", { class: "wb-keys", "aria-label": "Keys", onkeydown: (/** @type {KeyboardEvent} */ e) => e.stopPropagation() });
  dialog.append(button("×", "Close", () => dialog.close(), { class: "wb-button wb-close" }), body);
  return { dialog, open: () => dialog.open || dialog.showModal(), button: button("?", "Keys (?)", () => dialog.showModal()) };
}

export { GRAPH_KEYS, KERNEL_KEYS, PASS_KEYS, QUERY_WORDS, keysDialog, TENSOR_KEYS };
