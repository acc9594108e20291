// A view's state in the address of its page: `report.html#p=numbers&s=31` opens on a finding.

const IDS = new Set(["only", "hidden"]), MOST_IDS = 1e6;
const NUMBERS = new Set(["selected", "step", "edit", "kernel", "inspected"]);

/** The trait of a view whose form a pane's trait has. @param {string} name */
const form = (name) => name.slice(name.lastIndexOf("_") + 1);

/**
 * The traits that an address sets; what is none is left out.
 * @param {string} hash
 * @returns {Record<string, unknown>}
 */
function traitsOf(hash) {
  const names = Object.fromEntries(Object.entries(PALETTE.letters).map(([name, letter]) => [letter, name]));
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const [letter, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!Object.hasOwn(names, letter)) continue;
    const name = names[letter];
    if (NUMBERS.has(form(name))) {
      if (/^-?[0-9]{1,9}$/.test(text)) found[name] = Number(text);
    } else if (IDS.has(form(name))) {
      const ids = idsOf(text);
      if (ids) found[name] = ids;
    } else if (name === "bookmarks") found[name] = bookmarksOf(text);
    else found[name] = form(name) === "expanded" ? text.split("|").filter(Boolean).map(unquoted) : text;
  }
  return found;
}

/** Bookmarks in an address; none if it is wrong. @param {string} text */
function bookmarksOf(text) {
  const at = (/** @type {unknown} */ k) => (Number.isInteger(k) ? k : null);
  try {
    return JSON.parse(text).map((/** @type {any[]} */ [id, step, note]) => [at(id), at(step), String(note)]);
  } catch {
    return [];
  }
}

/**
 * The ids of a list of runs such as `3,5-8`; none if it is no such list, or too long.
 * @param {string} text
 */
function idsOf(text) {
  if (!/^(?:[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)?$/.test(text)) return null;
  /** @type {number[]} */
  const found = [];
  for (const run of text.split(",").filter(Boolean)) {
    const [from, to = from] = run.split("-").map(Number);
    if (found.length + to - from >= MOST_IDS) return null;
    for (let id = from; id <= to; id++) found.push(id);
  }
  return found;
}

/** Ids in their order, runs of neighbours as their ends. @param {number[]} ids */
function runsOf(ids) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const id of [...new Set(ids)].toSorted((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[1] === id - 1) last[1] = id;
    else runs.push([id, id]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(",");
}

/** A key of a group as it was before it was quoted; a wrong one stays. @param {string} text */
function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address's end for the traits of a model.
 * @param {Pick<Model, "get">} model
 */
function hashOf(model) {
  const pairs = new URLSearchParams();
  for (const [name, letter] of Object.entries(PALETTE.letters)) {
    const value = model.get(name);
    if (value === null || value === undefined || value === "" || value === "auto") continue;
    if (name === "bookmarks") {
      if (value.length) pairs.set(letter, JSON.stringify(value));
    } else if (IDS.has(form(name))) {
      if (value.length || form(name) === "only") pairs.set(letter, runsOf(value));
    } else pairs.set(letter, Array.isArray(value) ? value.map((key) => key.replaceAll("%", "%25").replaceAll("|", "%7C")).toSorted().join("|") : value);
  }
  return "#" + pairs.toString();
}

export { hashOf, traitsOf };
