// The part of a graph that is shown: neighbourhoods, paths, and edges through what is hidden. filter.py is its twin.

import { listAt } from "./scene.js";

/** Most dashed edges into one instruction from what is hidden above it. */
const MOST_THROUGH = 12;

/** @typedef {"in" | "out" | "both"} Way */
/** @typedef {Map<number, number[]>} Links */

/**
 * The drawn inputs and users of each drawn instruction.
 * @param {Live} live
 */
function links(live) {
  /** @type {Links} */
  const inputs = new Map(), /** @type {Links} */ users = new Map();
  for (const v of live.order) {
    const n = live.scene.node(v);
    if (n.slot < 0) continue;
    for (const id of new Set(n.arguments)) {
      if ((live.node(id)?.slot ?? -1) < 0) continue;
      listAt(inputs, n.id).push(id);
      listAt(users, id).push(n.id);
    }
  }
  return { inputs, users };
}

/**
 * The ids that are reached in at most `n` steps, the start included.
 * @param {Iterable<number>} ids
 * @param {Links} next
 * @param {number} n
 */
function reached(ids, next, n = Infinity) {
  const found = new Set(ids);
  let edge = [...found];
  for (let k = 0; k < n && edge.length; k++) {
    const beyond = new Set(edge.flatMap((id) => next.get(id) ?? []));
    edge = [...beyond].filter((id) => !found.has(id));
    for (const id of edge) found.add(id);
  }
  return found;
}

/**
 * The instructions at most `n` edges away, upwards, downwards or both.
 * @param {Live} live
 * @param {number[]} ids
 * @param {number} n
 * @param {Way} way
 */
function hopsAround(live, ids, n, way) {
  const { inputs, users } = links(live), found = new Set(ids.filter((id) => live.node(id)));
  const up = way === "out" ? [] : reached(found, inputs, n), down = way === "in" ? [] : reached(found, users, n);
  return [...new Set([...found, ...up, ...down])].toSorted((a, b) => a - b);
}

/**
 * The instructions on all paths from one to another, in either direction; none if there is no path.
 * @param {Live} live
 * @param {number} a
 * @param {number} b
 */
function pathBetween(live, a, b) {
  const { inputs, users } = links(live);
  for (const [from, to] of [[a, b], [b, a]]) {
    const below = reached([from], users);
    if (below.has(to)) return [...reached([to], inputs)].filter((id) => below.has(id)).toSorted((x, y) => x - y);
  }
  return [];
}

/**
 * The slots that a filter shows, or null if it shows all. A body is shown with its owner, an owner with its body.
 * @param {Scene} scene
 * @param {number[] | null} only ids to which the graph is limited, or null
 * @param {number[]} hidden ids to hide
 */
function slotsShown(scene, only, hidden) {
  if (!only && !hidden.length) return null;
  const { slot, id } = scene.data.nodes, wanted = new Set(only ?? []), unwanted = new Set(hidden);
  /** @type {Set<number>} */
  const kept = new Set(), /** @type {Set<number>} */ gone = new Set();
  slot.forEach((s, v) => {
    if (s < 0) return;
    if (!only || wanted.has(id[v]) || scene.chips(v).some(([, c, port]) => !port && wanted.has(c))) kept.add(s);
    if (unwanted.has(id[v])) gone.add(s);
  });
  /** @type {Set<number>} */
  const shown = new Set();
  for (let s = 0; s < scene.slots; s++) {
    const around = [s, ...scene.chain(s).map((g) => scene.data.groups.slot[g]).filter((owner) => owner >= 0)];
    if (around.some((o) => kept.has(o)) && !around.some((o) => gone.has(o))) for (const o of around) shown.add(o);
  }
  return shown;
}

/**
 * For each hidden instruction, the shown ones that it depends on through hidden ones only.
 * @param {Live} live
 * @param {Set<number>} slots the shown slots
 */
function throughHidden(live, slots) {
  /** @type {Links} */
  const found = new Map();
  for (const v of live.order) {
    const n = live.scene.node(v);
    if (n.slot < 0 || slots.has(n.slot)) continue;
    const above = n.inputs.flatMap((id) => {
      const s = live.node(id);
      return !s || s.slot < 0 || s.module !== n.module ? [] : slots.has(s.slot) ? [id] : found.get(id) ?? [];
    });
    found.set(n.id, [...new Set(above)].slice(0, MOST_THROUGH));
  }
  return found;
}

/**
 * One side of a view, limited to some slots; the whole itself if all are shown.
 * @param {Live} live
 * @param {Set<number> | null} slots
 * @returns {Live}
 */
function limited(live, slots) {
  const whole = live.whole ?? live;
  if (!slots) return whole;
  if (whole.part?.slots === slots) return whole.part;
  const bySlot = new Map([...whole.bySlot].filter(([slot]) => slots.has(slot)));
  return (whole.part = Object.assign(Object.create(Object.getPrototypeOf(whole)), whole, { bySlot, slots, whole, through: throughHidden(whole, slots) }));
}

export { hopsAround, limited, pathBetween, slotsShown, throughHidden };
