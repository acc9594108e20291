// A view's state in the address of its page: `report.html#p=numbers&s=31` opens on a finding.

const NUMBERS = new Set(["selected", "step", "edit", "kernel"]);

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
    } else found[name] = form(name) === "expanded" ? text.split("|").filter(Boolean).map(unquoted) : text;
  }
  return found;
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
    const keys = Array.isArray(value) ? value.map((key) => key.replaceAll("%", "%25").replaceAll("|", "%7C")).toSorted() : null;
    pairs.set(letter, keys ? keys.join("|") : String(value));
  }
  return "#" + pairs.toString();
}

export { hashOf, traitsOf };
