// The inspector of the graph view and the pass explorer.

import { attributes } from "./format.js";
import { h, hint, soft } from "./dom.js";

/**
 * The facts of an instruction: attributes, shape, source nodes, inputs and users.
 * @param {Live} live
 * @param {number | null} id
 * @param {(id: number) => void} select
 * @param {(node: string) => void} follow
 * @param {Child} more what else there is to say
 */
function inspector(live, id, select, follow, more = null) {
  const n = id === null ? undefined : live.node(id);
  if (!n || id === null)
    return h("div", { class: "wb-inspector", "data-id": id },
      hint(id === null ? "Select an instruction for its attributes and origin." : `Instruction ${id} is not in this program.`));
  /** @type {(k: number) => Child} */
  const link = (k) => h("div", {}, h("button", { class: "wb-link", onclick: () => select(k) },
    [...new Set([live.name(k), live.node(k)?.title ?? ""])].join(" ")));
  /** @type {[string, Child][]} */
  const rows = [["shape", h("code", {}, n.shape || "none")]];
  /** @type {(name: string, items: Child[], limit: number) => void} */
  const some = (name, items, limit) => {
    if (items.length) rows.push([name, items.slice(0, limit)]);
    if (items.length > limit) rows.push(["", `and ${items.length - limit} more`]);
  };
  for (const [key, value] of attributes(n.text)) rows.push([key, h("code", {}, value)]);
  some("from", n.sources.map((s) => h("div", { class: "wb-source" }, h("button", { class: "wb-link", title: "The next instruction from it", onclick: () => follow(s.name) }, h("code", {}, s.name)), s.op ? soft(" " + s.op) : null)), 12);
  for (const what of /** @type {const} */ (["gradient", "gradient of"])) some(what, [live.scene.data[what][id]].filter((k) => live.node(k)).map(link), 1);
  some("inputs", n.arguments.map(link), 16);
  some("users", (live.users.get(id) ?? []).map(link), 16);
  return h("div", { class: "wb-inspector", "data-id": id },
    h("h2", {}, `${live.name(id)} ${n.title}`),
    n.fact ? h("p", { class: "wb-soft" }, n.fact) : null, more,
    h("dl", {}, rows.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])));
}

/**
 * The note that a pass removed an instruction, and its replacement.
 * @param {Live} after
 * @param {number | undefined} next
 * @param {(id: number) => void} show
 */
const removal = (after, next, show) => h("p", { class: "wb-soft" }, "− removed by this pass", next === undefined ? "" : ["; replaced by ",
  h("button", { class: "wb-link", onclick: () => show(next) }, `${after.name(next)} ${after.node(next)?.title ?? ""}`)]);

export { inspector, removal };
