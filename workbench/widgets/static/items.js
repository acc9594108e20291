// The boxes drawn for one side of a view: one per node or closed group, and the panels of open groups.

import { count } from "./format.js";

/** @type {Mark[]} */
const MARKS = ["added", "removed", "changed"];

/** A closed group; of repeated blocks, also the instructions of each.
 * @typedef {{ box: Box, total: number, ids: number[], blocks: Record<number, number[]> } & Record<Mark, number>} Closed */

/**
 * The boxes to draw, from top to bottom: nodes, and closed groups with the changes inside them.
 * @param {Live} live
 * @param {Layout} layout
 */
function itemsOf(live, layout) {
  const { scene } = live, { body } = scene.data.groups;
  /** @type {Item[]} */
  const items = [];
  /** @type {Map<number, Closed>} */
  const closed = new Map();
  /** The number of instructions in each group. @type {Map<number, number>} */
  const within = new Map();
  const { nodes } = scene.data, { parent } = scene.data.slots;
  for (const [slot, v] of live.bySlot) {
    const main = nodes.module[v] === 0, seen = layout.shownAs(slot), box = layout.box(seen);
    if (!box) continue;
    for (let g = parent[slot]; g >= 0; g = scene.data.groups.parent[g]) if (main || body[g]) within.set(g, (within.get(g) ?? 0) + 1);
    if (seen !== slot) enclose(closed, live, v, box);
    else if (!box.open || !nodes.opens[v]) items.push(nodeItem(live, scene.node(v), box));
  }
  for (const group of closed.values()) items.push(groupItem(scene, group));
  const panels = layout.panels.filter((b) => b.i >= scene.slots || opensHere(live, b.i));
  return { items: items.sort((a, b) => a.y - b.y || a.x - b.x), panels, within };
}

/**
 * @param {Live} live
 * @param {number} slot
 */
function opensHere(live, slot) {
  const v = live.bySlot.get(slot);
  return v !== undefined && !!live.scene.data.nodes.opens[v];
}

/**
 * Count a version in the closed group that shows it; the closed body of an instruction is a node.
 * @param {Map<number, Closed>} closed
 * @param {Live} live
 * @param {number} v
 * @param {Box} box
 */
function enclose(closed, live, v, box) {
  if (box.i < live.scene.slots) return;
  const { id, module } = live.scene.data.nodes, mark = live.marks.get(v);
  const group = closed.get(box.i) ?? { box, total: 0, added: 0, removed: 0, changed: 0, ids: [], blocks: {} };
  if (module[v] === 0) group.total++;
  group.ids.push(id[v]);
  if (mark) group[mark]++;
  const { parent, key } = live.scene.data.groups, fold = box.i - live.scene.slots;
  if (/×\d+(#\d+)?$/.test(key[fold])) {
    let block = live.scene.data.nodes.slot[v];
    for (let g = live.scene.data.slots.parent[block]; g !== fold; g = parent[g]) block = g + live.scene.slots;
    (group.blocks[block] ??= []).push(id[v]);
  }
  closed.set(box.i, group);
}

/**
 * @param {Scene} scene
 * @param {Closed} group
 * @returns {Item}
 */
function groupItem(scene, group) {
  const { key, label } = scene.data.groups, { box, ids, total } = group, k = box.i - scene.slots;
  const marks = MARKS.filter((m) => group[m]).map((m) => PALETTE.glyphs[m] + group[m]);
  const own = scene.partial ? "counting…" : marks.length ? `${marks.join(" ")} of ${total.toLocaleString("en")}` : count(total, "instruction");
  return { i: box.i, key: key[k], group: true, opens: true, title: label[k], fact: own, own, ids, blocks: Object.values(group.blocks), family: -1, chips: [], ...place(box, box.w) };
}

/**
 * @param {Live} live
 * @param {Version} n
 * @param {Box} box
 * @returns {Item}
 */
function nodeItem(live, n, box) {
  const g = n.opens ? live.scene.bodyOf.get(n.slot) : undefined;
  return {
    i: box.i, v: n.v, id: n.id, ids: [n.id], group: false, title: n.title, fact: n.fact, own: n.fact, family: n.family, chips: n.chips,
    key: g === undefined ? undefined : live.scene.data.groups.key[g], opens: g !== undefined, mark: live.marks.get(n.v), ...place(box, n.width),
  };
}

/**
 * The place of one version in its slot's box.
 * @param {Box} box
 * @param {number} width
 * @returns {Place}
 */
function place(box, width) {
  const w = Math.min(width, box.w) || width;
  return { x: box.cx - w / 2, y: box.y, w, h: box.open ? 40 : box.h };
}

export { MARKS, itemsOf };
