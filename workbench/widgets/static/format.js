// Numbers, counts and attributes as text.

/**
 * Three significant digits; no exponent from 0.01 to 9,999.
 * @param {number} value
 */
function number(value) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 0.01) return value.toExponential(2).replace("e+", "e");
  const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toFixed(digits));
}

/**
 * A number of things: `count(2, "match", "matches")`.
 * @param {number} n
 * @param {string} word
 * @param {string} words
 */
const count = (n, word, words = word + "s") => `${n.toLocaleString("en")} ${n === 1 ? word : words}`;

/**
 * Whether a value is known.
 * @template T
 * @param {T} n
 * @returns {n is NonNullable<T>}
 */
const known = (n) => n !== null && n !== undefined;

/** @param {number} n */
const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${number(n / 1e3)} kB` : n < 1e9 ? `${number(n / 1e6)} MB` : `${number(n / 1e9)} GB`);

/** @param {number} ms */
const duration = (ms) => (ms < 1e3 ? `${number(ms)} ms` : `${number(ms / 1e3)} s`);

/** @param {number | null | undefined} n */
const percent = (n) => (known(n) ? `${number(100 * n)} %` : "");

/**
 * The attributes in an operation's text form, `name[key=value,...]`, as pairs.
 * @param {string} text
 */
function attributes(text) {
  /** @type {[string, string][]} */
  const found = [];
  const open = text.indexOf("[");
  if (open < 0 || !text.endsWith("]")) return found;
  let depth = 0, start = open + 1;
  for (let k = start; k < text.length; k++) {
    const c = text[k];
    if (c === "{" || c === "[") depth++;
    if (c === "}" || (c === "]" && k < text.length - 1)) depth--;
    if ((c === "," && depth === 0) || k === text.length - 1) {
      const [key, ...value] = text.slice(start, k).split("=");
      found.push([key.trim(), value.join("=")]);
      start = k + 1;
    }
  }
  return found;
}

/**
 * The words of a search, in lower case; all have to match.
 * @param {string} text
 */
const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

export { attributes, bytes, count, duration, known, number, percent, wordsOf };
