// Ranks and order within ranks, one container at a time: the algorithm of order.py, item for item.

const SWEEPS = 6, LANE_BUDGET = 4, LONG_LANE = 48;

/** The edges of one container, between children by their index; those from outside have the source's slot. */
class Links {
  /** @param {number[]} children */
  constructor(children) {
    this.children = children;
    this.n = children.length;
    /** @type {Map<number, number>} */
    this.index = new Map(children.map((item, k) => [item, k]));
    /** @type {Set<number>} */
    this.inner = new Set();
    /** @type {Set<number>} */
    this.leaving = new Set();
    /** @type {Set<number>} */
    this.entering = new Set();
    /** The edges of the first step among each kind. @type {Record<"inner" | "leaving" | "entering", Set<number>>} */
    this.firm = { inner: new Set(), leaving: new Set(), entering: new Set() };
  }

  /**
   * @param {"inner" | "leaving" | "entering"} kind
   * @param {number} edge
   * @param {boolean} firm
   */
  add(kind, edge, firm) {
    this[kind].add(edge);
    if (firm) this.firm[kind].add(edge);
  }
}

/** The order of all items. Container 0 is the page, k + 1 is group k; each is arranged when it is first asked for. */
class Order {
  /** @param {SceneData} data */
  constructor({ slots, groups, edges, firm }) {
    this.parent = slots.parent;
    this.groups = groups;
    this.edges = edges;
    this.firm = firm;
    this.slots = slots.parent.length;
    this.first = this.slots + groups.key.length;
    /** The key of each lane: the item that its edge starts from, or −1 − the slot if that is outside. @type {number[]} */
    this.lanes = [];
    /** The rank of each arranged item. @type {Map<number, number>} */
    this.rank = new Map();
    /** The lanes of each arranged container by key. @type {Map<number, number[]>[]} */
    this.through = [];
    /** @type {Container[]} */
    this.made = [];
    this.place = this.places(slots.position);
    this.inside = this.children();
    this.passing = this.passes();
  }

  /** @param {number} index */
  container(index) { return (this.made[index] ??= this.arrange(index)); }

  /**
   * The position of each item in the program's order; a group at its first slot.
   * @param {Int32Array} position
   */
  places(position) {
    const { parent, groups, slots } = this, place = new Float64Array(this.first).fill(Infinity);
    for (let s = 0; s < slots; s++) {
      place[s] = position[s] * (slots + 1) + s;
      for (let g = parent[s]; g >= 0 && place[s] < place[slots + g]; g = groups.parent[g]) place[slots + g] = place[s];
    }
    return place;
  }

  /** The slots and scopes in each container. */
  children() {
    const { parent, groups, slots } = this;
    /** @type {number[][]} */
    const inside = Array.from({ length: groups.key.length + 1 }, () => []);
    for (let s = 0; s < slots; s++) inside[parent[s] + 1].push(s);
    for (let g = 0; g < groups.key.length; g++) if (!groups.body[g]) inside[groups.parent[g] + 1].push(slots + g);
    return inside;
  }

  /** The edges that each container contains, or that leave, cross or enter it. */
  passes() {
    const { parent, groups, edges } = this;
    /** @type {number[][]} */
    const passing = Array.from({ length: groups.key.length + 1 }, () => []);
    for (let e = 0; e < edges.length; e += 2) {
      const a = parent[edges[e]], b = parent[edges[e + 1]];
      if (a === b) passing[a + 1].push(e);
      else for (const g of between(chain(a, groups.parent), chain(b, groups.parent))) passing[g + 1].push(e);
    }
    return passing;
  }

  /**
   * The child of a container that a slot is, or is in; undefined if it is elsewhere.
   * @param {number} container
   * @param {number} slot
   */
  child(container, slot) {
    let item = slot;
    for (let g = this.parent[slot]; g !== container; g = this.groups.parent[g]) {
      if (g < 0) return undefined;
      item = this.slots + g;
    }
    return item;
  }

  /** @param {number} index */
  links(index) {
    const { edges } = this, links = new Links(this.inside[index].toSorted((p, q) => this.place[p] - this.place[q])), { n } = links;
    for (const e of this.passing[index]) {
      const source = edges[e], user = edges[e + 1], start = this.child(index - 1, source), end = this.child(index - 1, user), firm = e < 2 * this.firm;
      if (source === user) continue;
      const a = start === undefined ? -1 : links.index.get(start) ?? -1, b = end === undefined ? -1 : links.index.get(end) ?? -1;
      if (a >= 0 && b < 0) links.add("leaving", a, firm);
      else if (a < 0 && b >= 0) links.add("entering", source * n + b, firm);
      else if (a >= 0 && a !== b) links.add("inner", a * n + b, firm);
    }
    return links;
  }

  /**
   * Assign each child of a container its rank and its position in the rank.
   * @param {number} index
   * @returns {Container}
   */
  arrange(index) {
    const links = this.links(index), builder = new Builder(links, ranksOf(links, this.place)), { ranks, ties, lanes } = builder.build();
    const { children, n } = links, first = this.first + this.lanes.length;
    /** @type {(k: number) => number} */
    const item = (k) => (k < n ? children[k] : first + k - n);
    /** @type {Map<number, number[]>} */
    const through = new Map();
    lanes.forEach((key, k) => {
      const name = key < 0 ? key : children[key], known = through.get(name);
      if (known) known.push(first + k);
      else through.set(name, [first + k]);
      this.lanes.push(name);
    });
    this.through[index] = through;
    const placed = ranks.map((items, r) => items.map((k) => {
      this.rank.set(item(k), r);
      return item(k);
    }));
    return { ranks: placed, ties: ties.map(item) };
  }
}

/**
 * A group and those around it, innermost first.
 * @param {number} g
 * @param {Int32Array} parent
 */
function chain(g, parent) {
  const found = [];
  for (; g >= 0; g = parent[g]) found.push(g);
  return found;
}

/**
 * The groups that an edge leaves, the one that contains it (−1 is the page), and those that it enters.
 * @param {number[]} above
 * @param {number[]} below
 */
function between(above, below) {
  let common = -1;
  while (above.length && below.length && above[above.length - 1] === below[below.length - 1]) {
    common = /** @type {number} */ (above.pop());
    below.pop();
  }
  return [...above, common, ...below];
}

/**
 * Ranks by longest path from the top; children without inputs then move down to their first user.
 * @param {Links} links
 * @param {Float64Array} place
 */
function ranksOf(links, place) {
  const { n, children } = links, rank = new Array(n).fill(0), pinned = new Set([...links.entering].map((e) => e % n));
  /** @type {number[][]} */
  const before = Array.from({ length: n }, () => []);
  /** @type {number[][]} */
  const after = Array.from({ length: n }, () => []);
  for (const e of links.inner) {
    const b = e % n, a = (e - b) / n;
    if (place[children[a]] >= place[children[b]]) continue;
    before[b].push(a);
    after[a].push(b);
  }
  /** @type {Set<number>} */
  const loose = new Set();
  for (let k = 0; k < n; k++) {
    for (const p of before[k]) rank[k] = Math.max(rank[k], rank[p] + 1);
    if (!pinned.has(k) && before[k].every((p) => loose.has(p))) loose.add(k);
  }
  for (let k = n - 1; k >= 0; k--) {
    if (!loose.has(k) || !after[k].length) continue;
    rank[k] = Infinity;
    for (const s of after[k]) rank[k] = Math.min(rank[k], rank[s] - 1);
  }
  return rank;
}

/** Adds lanes to the ranks of one container, and orders each rank. Children are numbers below n, lanes above. */
class Builder {
  /**
   * @param {Links} links
   * @param {number[]} rank
   */
  constructor(links, rank) {
    this.links = links;
    this.rank = rank;
    this.depth = 0;
    for (const r of rank) this.depth = Math.max(this.depth, r + 1);
    /** @type {number[][]} */
    this.ranks = Array.from({ length: this.depth }, () => []);
    rank.forEach((r, k) => this.ranks[r].push(k));
    /** The key of each lane. @type {number[]} */
    this.lanes = [];
    /** @type {number[]} */
    this.ties = [];
  }

  build() {
    const spans = this.spans(), budget = LANE_BUDGET * this.links.n + 200;
    let total = 0;
    for (const s of spans.values()) total += Math.max(0, s.last - s.first);
    for (const [key, s] of spans) {
      if (total > budget && s.last - s.first > LONG_LANE) this.tieEnds(key, s.targets);
      else this.lane(key, s.first, s.last, s.targets);
    }
    sortRanks(this.ranks, this.ties, this.links.n + this.lanes.length);
    this.keepFirm();
    return this;
  }

  /** For each start of edges, the first and last rank that its lane crosses, and its ends. An edge of a later step gets no lane. */
  spans() {
    const { links, rank, depth } = this, { n, firm } = links;
    /** @type {Map<number, { first: number, last: number, targets: number[] }>} */
    const spans = new Map();
    /** @type {(key: number, first: number, last: number, target?: number) => void} */
    const extend = (key, first, last, target) => {
      const s = spans.get(key) ?? { first, last: first, targets: [] };
      s.last = Math.max(s.last, last);
      if (target !== undefined) s.targets.push(target);
      spans.set(key, s);
    };
    for (const e of links.inner) {
      const b = e % n, a = (e - b) / n;
      if (firm.inner.has(e) || rank[b] === rank[a] + 1) extend(a, rank[a] + 1, rank[b], b);
    }
    for (const k of links.leaving) if (firm.leaving.has(k)) extend(k, rank[k] + 1, depth);
    for (const e of links.entering) {
      const b = e % n;
      if (firm.entering.has(e)) extend(-1 - (e - b) / n, 0, rank[b], b);
    }
    return spans;
  }

  /**
   * @param {number} key
   * @param {number[]} targets
   */
  tieEnds(key, targets) { if (key >= 0) for (const t of targets) this.ties.push(key, t); }

  /**
   * Add the lanes of one start, tied from rank to rank and to their ends.
   * @param {number} key
   * @param {number} first
   * @param {number} last
   * @param {number[]} targets
   */
  lane(key, first, last, targets) {
    /** The item of each rank from the one before the first. @type {(number | undefined)[]} */
    const at = [key >= 0 ? key : undefined];
    for (let r = first; r < last; r++) {
      const item = this.links.n + this.lanes.length, above = at[r - first];
      this.lanes.push(key);
      this.ranks[r].push(item);
      at.push(item);
      if (above !== undefined) this.ties.push(above, item);
    }
    for (const t of targets) {
      const above = at[this.rank[t] - first];
      if (above !== undefined && above !== t) this.ties.push(above, t);
    }
  }

  /** Drop ties of later steps between children that the first step already ties. */
  keepFirm() {
    const { links, rank } = this, { n, firm } = links, held = new Set();
    for (const e of firm.inner) {
      const b = e % n, a = (e - b) / n;
      if (rank[a] + 1 === rank[b]) held.add(a).add(b);
    }
    const kept = [];
    for (let k = 0; k < this.ties.length; k += 2) {
      const a = this.ties[k], b = this.ties[k + 1];
      if (!(held.has(a) && held.has(b)) || firm.inner.has(a * n + b)) kept.push(a, b);
    }
    this.ties = kept;
  }
}

/**
 * Order each rank by the mean position of its neighbours, sweeping down and up (barycentres).
 * @param {number[][]} ranks
 * @param {number[]} ties
 * @param {number} n the number of items
 */
function sortRanks(ranks, ties, n) {
  /** @type {number[][]} */
  const above = Array.from({ length: n }), below = Array.from({ length: n });
  for (let k = 0; k < ties.length; k += 2) {
    (above[ties[k + 1]] ??= []).push(ties[k]);
    (below[ties[k]] ??= []).push(ties[k + 1]);
  }
  const place = new Float64Array(n), want = new Float64Array(n);
  for (const items of ranks) settle(items, place);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (let r = 0; r < ranks.length; r++) {
      const items = ranks[down ? r : ranks.length - 1 - r];
      if (items.length < 2) continue;
      for (const i of items) want[i] = mean((down ? above : below)[i], place, place[i]);
      items.sort((p, q) => want[p] - want[q]);
      settle(items, place);
    }
  }
}

/**
 * The mean position of neighbours, or the item's own if it has none.
 * @param {number[] | undefined} near
 * @param {Float64Array} place
 * @param {number} own
 */
function mean(near, place, own) {
  if (!near) return own;
  let sum = 0;
  for (const i of near) sum += place[i];
  return sum / near.length;
}

/**
 * Positions around 0 whatever the rank's size, so that wide and narrow ranks are comparable.
 * @param {number[]} items
 * @param {Float64Array} place
 */
function settle(items, place) { items.forEach((i, k) => (place[i] = k - (items.length - 1) / 2)); }

export { Order };
