// A scene: slots, groups and versions of instructions, decoded from columns; and the content of one side of a view.

import { Order } from "./order.js";
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

/**
 * The entries of row `v` of a column of lists.
 * @param {Int32Array} column
 * @param {Int32Array} ends
 * @param {number} v
 */
const slice = (column, ends, v) => Array.from(column.subarray(v ? ends[v - 1] : 0, ends[v]));

/**
 * The room of each slot: that of the largest of its versions.
 * @param {SceneData} data
 * @returns {Sizes}
 */
function slotSizes({ slots, nodes, sizes }) {
  const n = slots.parent.length, left = new Array(n).fill(0), right = new Array(n).fill(0), height = new Array(n).fill(0);
  nodes.slot.forEach((s, v) => {
    if (s < 0) return;
    const k = nodes.size[v];
    left[s] = Math.max(left[s], sizes.left[k]);
    right[s] = Math.max(right[s], sizes.right[k]);
    height[s] = Math.max(height[s], sizes.height[k]);
  });
  return { left, right, height };
}

/**
 * Columns with what came later behind them.
 * @param {any} old
 * @param {any} more
 * @returns {any}
 */
function grown(old, more) {
  if (Array.isArray(old)) return [...old, ...more];
  if (old instanceof Int32Array) {
    const all = new Int32Array(old.length + more.length);
    all.set(old);
    all.set(more, old.length);
    return all;
  }
  if (Object(more) !== more) return more;
  const all = { ...old };
  for (const key in more) all[key] = grown(all[key], more[key]);
  return all;
}

/** Slots and groups over all steps of a view, numbered as items: slots, then groups, then lanes. */
class Scene {
  /** @param {SceneData} data */
  constructor(data) {
    this.data = data;
    this.slots = data.slots.parent.length;
    this.versions = data.nodes.id.length;
    this.groups = data.groups.key.length;
    this.firstLane = this.slots + this.groups;
    this.order = new Order(data);
    /** @type {Map<number, number>} */
    this.bodyOf = new Map();
    data.groups.slot.forEach((slot, g) => slot >= 0 && this.bodyOf.set(slot, g));
    this.sizes = slotSizes(data);
    /** Whether what closed groups hide is still to come. */
    this.partial = false;
    /** @type {(Version | undefined)[]} */
    this.cache = [];
  }

  /** The arranged container of a group, or of the page (−1). @param {number} g */
  container(g) { return this.order.container(g + 1); }

  /** The rank of an item of an arranged container. @param {number} i */
  rank(i) { return this.order.rank.get(i) ?? 0; }

  /**
   * The lanes of an arranged container with a key.
   * @param {number} g
   * @param {number} key
   */
  lanes(g, key) { return this.order.through[g + 1]?.get(key) ?? []; }

  /** The label, id and kind of each chip of a version. @param {number} v */
  chips(v) {
    const { chips, chipEnds } = this.data.nodes, list = slice(chips, chipEnds, v);
    return Array.from({ length: list.length / 3 }, (_, k) => list.slice(3 * k, 3 * k + 3));
  }

  /** Add versions that no column has. @param {Version[]} added */
  add(added) {
    const { nodes, looks } = this.data, fresh = new Int32Array(added.reduce((n, { v }) => Math.max(n, v + 1 - nodes.id.length), 0));
    for (const name of /** @type {const} */ (["id", "slot", "module", "look", "opens"])) nodes[name] = grown(nodes[name], fresh);
    for (const one of added) {
      const { v } = one;
      this.cache[v] = one;
      [nodes.id[v], nodes.slot[v], nodes.module[v], nodes.opens[v]] = [one.id, one.slot, one.module, Number(one.opens)];
      nodes.look[v] = looks.text.push(one.text) - 1;
      looks.family.push(one.family);
    }
  }

  /** The arguments of a version. @param {number} v */
  args(v) { return v < this.versions ? slice(this.data.nodes.arguments, this.data.nodes.argumentEnds, v) : this.node(v).arguments; }

  /** The arguments of a version that are drawn as edges: those that are no chips. @param {number} v */
  inputs(v) {
    const chips = new Set(this.chips(v).map(([, id]) => id));
    return [...new Set(this.args(v))].filter((id) => !chips.has(id));
  }

  /**
   * One version of an instruction.
   * @param {number} v
   * @returns {Version}
   */
  node(v) {
    const known = this.cache[v];
    if (known) return known;
    const { nodes: n, strings: s, looks, sources: from } = this.data, k = n.look[v];
    return (this.cache[v] = {
      v, id: n.id[v], slot: n.slot[v], module: n.module[v], title: looks.title[k], fact: looks.fact[k],
      family: looks.family[k], opens: !!n.opens[v], width: looks.width[k], inputs: this.inputs(v), arguments: this.args(v),
      shape: looks.shape[k], text: looks.text[k], chips: this.chips(v).map(([l, id, port]) => ({ label: s[l], id, port: !!port })),
      sources: slice(n.sources, n.sourceEnds, v).map((i) => ({ name: s[from.name[i]], op: s[from.op[i]], scope: s[from.scope[i]] })),
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
   * @param {Iterable<number>} order
   * @param {Map<number, Mark>} marks
   */
  constructor(scene, order, marks = new Map()) {
    this.scene = scene;
    /** @type {Map<number, string> | undefined} */
    this.named = undefined;
    /** @type {Map<number, number[]> | undefined} */
    this.used = undefined;
    this.order = [...order];
    this.marks = marks;
    /** @type {Map<number, number>} */
    this.byId = new Map();
    /** @type {Map<number, number>} */
    this.bySlot = new Map();
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
    const { id, slot } = scene.data.nodes;
    for (const v of order) {
      this.byId.set(id[v], v);
      if (slot[v] >= 0) this.bySlot.set(slot[v], v);
    }
  }

  /** The names of instructions, by id. @type {Map<number, string>} */
  get names() {
    if (this.named) return this.named;
    const { id, module, look } = this.scene.data.nodes, { text } = this.scene.data.looks, { modules } = this.scene.data;
    this.named = new Map();
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const v of this.order) {
      const m = module[v], k = counts.get(m) ?? 0, words = text[look[v]];
      counts.set(m, k + 1);
      this.named.set(id[v], (m ? short(modules[m]) + ":" : "") + (words.startsWith("@param:") ? words.slice(7) : "@" + k));
    }
    return this.named;
  }

  /** The users of each instruction, by id. @type {Map<number, number[]>} */
  get users() {
    if (this.used) return this.used;
    this.used = new Map();
    for (const v of this.order) for (const a of new Set(this.scene.args(v))) listAt(this.used, a).push(this.scene.data.nodes.id[v]);
    return this.used;
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

export { Live, NOTHING, Scene, grown, listAt, slice };
