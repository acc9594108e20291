// A scene: slots, groups and versions of instructions, decoded from columns; and the content of one side of a view.

import { findIds } from "./query.js";

/** @type {Known} */
const NOTHING = { overlay: null, marks: null, rules: null, passes: null, kernels: null };

/** The end of a long name of nested modules. @param {string} name */
const short = (name) => (name.length > 30 ? "…" + name.slice(-24) : name);

/**
 * The list at a key, created if there is none.
 * @template K, V
 * @param {Map<K, V[]>} map
 * @param {K} key
 */
function listAt(map, key) {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

/** Slots and groups over all steps of a view, numbered as items: slots, then groups, then lanes. */
class Scene {
  /** @param {SceneData} data */
  constructor(data) {
    this.data = data;
    this.slots = data.slots.parent.length;
    this.groups = data.groups.key.length;
    this.firstLane = this.slots + this.groups;
    /** @type {Map<number, number>} */
    this.bodyOf = new Map();
    data.groups.slot.forEach((slot, g) => slot >= 0 && this.bodyOf.set(slot, g));
    /** @type {Map<number, number>} */
    this.rank = new Map();
    for (const c of data.containers) c.ranks.forEach((items, r) => items.forEach((i) => this.rank.set(i, r)));
    /** @type {Map<string, number[]>} */
    this.laneItems = new Map();
    data.lanes.key.forEach((key, k) => listAt(this.laneItems, data.lanes.container[k] + ":" + key).push(this.firstLane + k));
    /** @type {(Version | undefined)[]} */
    this.cache = [];
  }

  /**
   * One version of an instruction.
   * @param {number} v
   * @returns {Version}
   */
  node(v) {
    const n = this.data.nodes, s = this.data.strings;
    return (this.cache[v] ??= {
      v, id: n.id[v], slot: n.slot[v], module: n.module[v], title: s[n.title[v]], fact: s[n.fact[v]],
      family: n.family[v], opens: !!n.opens[v], width: n.width[v], inputs: n.inputs[v], arguments: n.arguments[v],
      shape: s[n.shape[v]], text: s[n.text[v]],
      chips: n.chips[v].map(([l, id, port]) => ({ label: s[l], id, port: !!port })),
      sources: n.sources[v].map((k) => ({ name: s[k], op: this.data.sources[k]?.[0], scope: this.data.sources[k]?.[1] })),
    });
  }

  /** The item that represents a group. @param {number} g */
  itemOf(g) { return this.data.groups.slot[g] < 0 ? this.slots + g : this.data.groups.slot[g]; }
  /** The group around an item, or −1. @param {number} i */
  parentOf(i) { return i < this.slots ? this.data.slots.parent[i] : this.data.groups.parent[i - this.slots]; }
  /** The group that an item represents. @param {number} i */
  groupOf(i) { return i >= this.slots ? i - this.slots : this.bodyOf.get(i); }

  /** The groups around a slot, innermost first. @param {number} slot */
  chain(slot) {
    const found = [];
    for (let g = this.data.slots.parent[slot]; g >= 0; g = this.data.groups.parent[g]) found.push(g);
    return found;
  }
}

/** The content of one side of a view: versions in the program's order, each with a mark or none. */
class Live {
  /**
   * @param {Scene} scene
   * @param {number[]} order
   * @param {Map<number, Mark>} marks
   */
  constructor(scene, order, marks = new Map()) {
    this.scene = scene;
    this.order = order;
    this.marks = marks;
    /** @type {Map<number, number>} */
    this.byId = new Map();
    /** @type {Map<number, number>} */
    this.bySlot = new Map();
    /** @type {Map<number, string>} */
    this.names = new Map();
    /** @type {Map<number, number[]>} */
    this.users = new Map();
    /** @type {Facts[] | undefined} */
    this.listed = undefined;
    /** The slots to which a filter limits this side, what it left out between them, and the side without it. @type {Set<number> | null} */
    this.slots = null;
    /** @type {Map<number, number[]> | null} */
    this.through = null;
    /** @type {Live | null} */
    this.whole = null;
    /** @type {Live | null} */
    this.part = null;
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const v of order) {
      const n = scene.node(v), k = counts.get(n.module) ?? 0;
      counts.set(n.module, k + 1);
      this.byId.set(n.id, v);
      if (n.slot >= 0) this.bySlot.set(n.slot, v);
      const prefix = n.module ? short(scene.data.modules[n.module]) + ":" : "";
      this.names.set(n.id, prefix + (n.text.startsWith("@param:") ? n.text.slice(7) : "@" + k));
      for (const a of new Set(n.arguments)) listAt(this.users, a).push(n.id);
    }
  }

  /** @param {number} id */
  node(id) {
    const v = this.byId.get(id);
    return v === undefined ? undefined : this.scene.node(v);
  }

  /** @param {number} id */
  name(id) { return this.names.get(id) ?? "#" + id; }

  /**
   * The slot of an instruction: its own, or that of the node it is a chip of.
   * @param {number} id
   */
  slotOf(id) {
    const own = this.node(id);
    if (!own) return undefined;
    return [own, ...(this.users.get(id) ?? []).map((user) => this.node(user))].find((n) => n && n.slot >= 0)?.slot;
  }

  /**
   * The keys of the closed groups around an instruction.
   * @param {number} id
   * @param {Set<string>} open
   */
  shutAround(id, open) {
    const slot = this.slotOf(id);
    if (slot === undefined) return [];
    return this.scene.chain(slot).map((g) => this.scene.data.groups.key[g]).filter((key) => !open.has(key));
  }

  /** The facts of the instructions that a query can ask for, in the program's order. @returns {Facts[]} */
  get facts() {
    return (this.listed ??= this.order.map((v) => {
      const { id, title, fact, text, shape, sources, family } = this.scene.node(v);
      return { id, name: this.name(id), title, fact, text, shape, sources, get family() { return Object.keys(PALETTE.families)[family]; } };
    }));
  }

  /**
   * The ids of the instructions that a query finds; throws a QueryError if it is none.
   * @param {string} query
   * @param {Known} known
   */
  find(query, known = NOTHING) { return findIds(query, this.facts, known); }
}

export { Live, NOTHING, Scene, listAt };
