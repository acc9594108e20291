// The query language of the search box: words, fields, comparisons. query.py is its twin: same hits, same errors.

import { attributes } from "./format.js";

const FIELDS = ["op", "name", "source", "node", "scope", "dtype", "shape", "attr", "family", "mark", "rule", "pass", "kernel"];
const MARK_WORDS = ["added", "removed", "changed"];
const NUMBER = /^[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf)$/i;
const PATTERN = /\/((?:\\.|[^\\/])+)\/(i?)(?=[\s|)]|$)/y;
const FIELD = /([A-Za-z_]\w*):/y, COMPARED = /([A-Za-z_]\w*)(>=|<=|!=|>|<|=)/y, NAMED = /[^\s|]*?@\d+(?=[\s|)]|$)/y;
const PARTS = /_type, \{([^}]*)\}/g, TYPES = /(\w+)_type\b/g;
const NEEDS = {
  mark: "mark: needs the graphs before and after a pass, as in the pass explorer",
  rule: "rule: needs the edits of a pass, as in the pass explorer",
  pass: "pass: needs a recording, as in the pass explorer",
  kernel: "kernel: needs a view that knows kernels: the lowering step of the explorer, or a graph beside a kernel view",
};

/** @param {string} words @returns {Value} */
const plain = (words) => ({ words, quoted: false, pattern: null });

/** @param {string} text */
const real = (text) => (/inf/i.test(text) ? (text[0] === "-" ? -Infinity : Infinity) : Number(text));

/** The texts of an instruction as one. @param {Facts} f */
const hay = (f) => [f.name, f.title, f.fact, f.text, f.shape, ...f.sources.map((s) => s.name)].join(" ");

/** The name of the operation. @param {Facts} f */
const operation = (f) => f.text.replace(/^@/, "").split(/[[:]/, 1)[0];

/** A wrong query: what was expected, and the position in the text. */
class QueryError extends Error {
  /**
   * @param {string} message
   * @param {number} at
   */
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

/** Reads one query from the left to the right. */
class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = this.depth = 0;
  }

  /**
   * The match of a sticky pattern at the current position, or null.
   * @param {RegExp} pattern
   */
  peek(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  /** The text of a pattern's match, which is consumed; "" if it does not match. @param {RegExp} pattern */
  take(pattern) {
    const found = this.peek(pattern)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** Terms that are joined by `or`. @returns {Term} */
  any() {
    const terms = [this.all()];
    while (this.take(/\s*(?:\||or(?=[\s(]|$))/iy)) terms.push(this.all());
    return terms.length > 1 ? { kind: "or", terms } : terms[0];
  }

  /** Terms of which all have to match. @returns {Term} */
  all() {
    const terms = [];
    for (;;) {
      this.take(/\s*/y);
      if (this.at >= this.text.length || this.peek(/\||or(?=[\s(]|$)/iy) || (this.depth && this.text[this.at] === ")")) break;
      terms.push(this.term());
    }
    if (!terms.length) throw new QueryError("expected something to search for: a word, a field such as op:dot, or a text in quotes", this.at);
    return terms.length > 1 ? { kind: "and", terms } : terms[0];
  }

  /** @returns {Term} */
  term() {
    const at = this.at;
    if (this.take(/-/y)) {
      if (this.at >= this.text.length || this.peek(/\s/y)) throw new QueryError("expected a term to leave out after -", this.at);
      return { kind: "not", term: this.term() };
    }
    if (!this.take(/\(/y)) return this.atom();
    this.depth++;
    const found = this.any();
    this.depth--;
    if (!this.take(/\)/y)) throw new QueryError(`expected ) for the ( at position ${at + 1}`, this.at);
    return found;
  }

  /** @returns {Term} */
  atom() {
    const at = this.at, field = this.peek(FIELD)?.[1].toLowerCase(), named = this.peek(NAMED)?.[0];
    if (this.text[at] === '"') return this.quotedTerm(at);
    if (field && FIELDS.includes(field)) return this.fieldTerm(field, at);
    if (named !== undefined) return { kind: "name", name: this.take(NAMED).toLowerCase() };
    if (field) return this.rangeTerm(at);
    const compared = this.peek(COMPARED);
    if (compared) return this.compareTerm(compared[1], compared[2], at);
    const id = this.take(/#\d+(?=[\s|)]|$)/y);
    return id ? { kind: "id", id: +id.slice(1) } : { kind: "text", value: this.value() };
  }

  /** A text in quotes, or a comparison with an overlay whose name is in quotes. @param {number} at @returns {Term} */
  quotedTerm(at) {
    const value = this.value(), op = this.peek(/>=|<=|!=|>|<|=/y)?.[0];
    return op ? this.compareTerm(value.words, op, at, op) : { kind: "text", value };
  }

  /**
   * @param {string} field
   * @param {number} at
   * @returns {Term}
   */
  fieldTerm(field, at) {
    this.take(FIELD);
    if (field !== "attr") return { kind: "field", field, value: this.value(field), at };
    const key = this.take(/[^\s|=<>!)]+/y), op = this.take(/>=|<=|!=|>|<|=/y);
    if (!key) throw new QueryError("expected an attribute after attr:, as in attr:axis=1", this.at);
    if (!op) return { kind: "attr", key, op, value: null, at };
    const start = this.at, value = this.value("attr");
    if (/[<>]/.test(op) && !NUMBER.test(value.words)) throw new QueryError(`expected a number after ${op}`, start);
    return { kind: "attr", key, op, value, at };
  }

  /** `ms:0.1..0.5`, the only use of a name that is no field. @param {number} at @returns {Term} */
  rangeTerm(at) {
    const name = this.take(FIELD).slice(0, -1), [low, high, ...rest] = this.take(/[^\s|)]*/y).split("..");
    if (!rest.length && high !== undefined && NUMBER.test(low) && NUMBER.test(high)) return { kind: "range", name, low: real(low), high: real(high), at };
    throw new QueryError(`there is no field ${name}: — expected one of ${FIELDS.join(", ")}, or quotes around a text with a colon`, at);
  }

  /**
   * @param {string} name
   * @param {string} op
   * @param {number} at
   * @param {string} rest what is left to consume before the number
   * @returns {Term}
   */
  compareTerm(name, op, at, rest = name + op) {
    const from = this.at;
    this.at += rest.length;
    const start = this.at, text = this.take(/[^\s|)]*/y), isNumber = NUMBER.test(text);
    if (!isNumber && /[<>]/.test(op)) throw new QueryError(`expected a number after ${name}${op}`, start);
    const words = this.text.slice(from, this.at);
    return isNumber ? { kind: "compare", name, op, number: real(text), words, at } : { kind: "text", value: plain(words) };
  }

  /**
   * A word, a text in quotes, or a regular expression.
   * @param {string} field the field before it, if any
   * @returns {Value}
   */
  value(field = "") {
    const at = this.at;
    if (this.take(/"/y)) {
      const words = this.take(/[^"]*/y);
      if (!this.take(/"/y)) throw new QueryError(`expected a closing quote for the one at position ${at + 1}`, this.at);
      return { ...plain(words), quoted: true };
    }
    const pattern = this.peek(PATTERN);
    if (pattern) return this.pattern(pattern);
    const words = this.take(field ? this.depth ? /(?:\{[^}]*\}|[^\s|)])*/y : /(?:\{[^}]*\}|[^\s|])*/y : this.depth ? /[^\s|)]*/y : /[^\s|]*/y);
    if (!words) throw new QueryError(`expected a value after ${field}:`, this.at);
    return plain(words);
  }

  /** @param {RegExpExecArray} found @returns {Value} */
  pattern(found) {
    const at = this.at;
    this.at += found[0].length;
    try {
      return { ...plain(found[0]), pattern: new RegExp(found[1], found[2] + "s") };
    } catch {
      throw new QueryError("this regular expression is invalid", at);
    }
  }
}

/**
 * A query as a tree, or null if it is blank.
 * @param {string} text
 * @returns {Term | null}
 */
function parseQuery(text) {
  return text.trim() ? new Reader(text).any() : null;
}

/** @typedef {(fact: Facts) => boolean} Test */

/**
 * The test of a query on the facts of one instruction.
 * @param {Term} term
 * @param {Known} known what the view knows
 * @returns {Test}
 */
function testOf(term, known) {
  switch (term.kind) {
    case "or": { const tests = term.terms.map((t) => testOf(t, known)); return (f) => tests.some((t) => t(f)); }
    case "and": { const tests = term.terms.map((t) => testOf(t, known)); return (f) => tests.every((t) => t(f)); }
    case "not": { const test = testOf(term.term, known); return (f) => !test(f); }
    case "id": return (f) => f.id === term.id;
    case "name": return (f) => f.name.toLowerCase() === term.name;
    case "text": return textTest(term.value);
    case "attr": return attributeTest(term);
    case "field": return fieldTest(term, known);
    default: return numberTest(term, known);
  }
}

/** @param {Value} value @returns {Test} */
function textTest({ words, pattern }) {
  if (pattern) return (f) => pattern.test(hay(f));
  const wanted = words.toLowerCase();
  return (f) => hay(f).toLowerCase().includes(wanted);
}

/**
 * Whether a text is the value's, or, unless `whole` is asked for, contains it; `*` stands for any text.
 * @param {Value} value
 * @param {boolean} whole
 * @returns {(text: string) => boolean}
 */
function likeness({ words, quoted, pattern }, whole) {
  if (pattern) return (text) => pattern.test(text);
  const wanted = words.toLowerCase();
  if (!quoted && wanted.includes("*")) {
    const parts = wanted.split("*").map((p) => p.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")), like = new RegExp(`^${parts.join(".*")}$`, "s");
    return (text) => like.test(text.toLowerCase());
  }
  return whole ? (text) => text.toLowerCase() === wanted : (text) => text.toLowerCase().includes(wanted);
}

/**
 * @param {Term & { kind: "field" }} term
 * @param {Known} known
 * @returns {Test}
 */
function fieldTest({ field, value, at }, known) {
  const part = likeness(value, false), whole = likeness(value, true);
  /** @type {(map: Map<number, string> | null, field: keyof typeof NEEDS) => Test} */
  const mapped = (map, key) => {
    if (!map) throw new QueryError(NEEDS[key], at);
    return (f) => (map.get(f.id) ?? "").split("\n").some((text) => text && part(text));
  };
  switch (field) {
    case "op": { const bare = likeness({ ...value, words: value.words.replace(/^@/, "") }, true); return (f) => bare(operation(f)); }
    case "name": return (f) => part(f.name) || part(f.title);
    case "scope": return scopeTest(value);
    case "dtype": { const type = likeness({ ...value, words: value.words.replace(/_type$/, "") }, true); return (f) => [...f.shape.matchAll(TYPES)].some((m) => type(m[1])); }
    case "shape": return shapeTest(value, at);
    case "family": checked(value, whole, Object.keys(PALETTE.families), at); return (f) => whole(f.family);
    case "mark": checked(value, whole, MARK_WORDS, at); return mapped(known.marks, "mark");
    case "rule": return mapped(known.rules, "rule");
    case "pass": return mapped(known.passes, "pass");
    case "kernel": return mapped(known.kernels, "kernel");
    default: return (f) => f.sources.some((s) => part(s.name));
  }
}

/**
 * Refuse a value that none of the words has.
 * @param {Value} value
 * @param {(text: string) => boolean} like
 * @param {string[]} words
 * @param {number} at
 */
function checked(value, like, words, at) {
  if (!words.some(like)) throw new QueryError(`expected one of ${words.join(", ")}, not ${value.words}`, at);
}

/** A scope contains the path as whole segments. @param {Value} value @returns {Test} */
function scopeTest(value) {
  const wanted = `/${value.words.replace(/^\/|\/$/g, "")}/`;
  const like = value.pattern ? likeness(value, false) : likeness({ ...value, words: value.quoted || !wanted.includes("*") ? wanted : `*${wanted}*` }, false);
  return (f) => f.sources.some((s) => like(value.pattern ? s.scope ?? "" : `/${s.scope ?? ""}/`));
}

/**
 * Sizes such as `1x*x56x56` or `{1, *, 56}`; `...` stands for any number of them.
 * @param {Value} value
 * @param {number} at
 * @returns {Test}
 */
function shapeTest(value, at) {
  const inner = value.words.replace(/^\{|\}$/g, "").trim();
  const wanted = inner === "" || inner === "scalar" ? [] : inner.split(inner.includes(",") ? "," : /[x×]/).map((d) => d.trim());
  if (value.pattern || wanted.some((d) => !/^(?:\*|\.\.\.|\w+(?:\.\.\w+)?)$/.test(d))) throw new QueryError("expected sizes after shape:, as in shape:1x*x56x56 or shape:{1,*,56,56}", at);
  const parts = wanted.map((d) => (d === "*" ? "[^,]*" : d === "..." ? "(?:[^,]*,)*" : d.replace(/\./g, "\\.")));
  const like = new RegExp(`^${parts.map((p, k) => p + (wanted[k] === "..." ? "" : ",")).join("")}$`);
  return (f) => [...f.shape.matchAll(PARTS)].some((m) => like.test(m[1] === "" ? "" : m[1].replace(/[\s[\]]/g, "") + ","));
}

/** Without spaces, outer braces and quotes. @param {string} text */
const bare = (text) => text.replace(/\s+/g, "").replace(/^[{["]|[}\]"]$/g, "");

/**
 * @param {Term & { kind: "attr" }} term
 * @returns {Test}
 */
function attributeTest({ key, op, value }) {
  const named = likeness(plain(key), true);
  /** @type {(text: string) => boolean} */
  let holds = () => true;
  if (value && /[<>]/.test(op)) {
    const number = real(value.words);
    holds = (text) => NUMBER.test(text) && ordered(real(text), op, number);
  } else if (value) {
    const like = value.pattern ? likeness(value, true) : likeness({ ...value, words: bare(value.words) }, true);
    holds = (text) => like(value.pattern ? text : bare(text)) === (op === "=");
  }
  return (f) => attributes(f.text).some(([k, text]) => named(k) && holds(text));
}

/**
 * @param {number} a
 * @param {string} op
 * @param {number} b
 */
function ordered(a, op, b) {
  return op === ">" ? a > b : op === ">=" ? a >= b : op === "<" ? a < b : op === "<=" ? a <= b : (a === b) === (op === "=");
}

/**
 * A comparison with the overlay's value. What is not finite is larger than any number.
 * @param {Term & { kind: "compare" | "range" }} term
 * @param {Known} known
 * @returns {Test}
 */
function numberTest(term, { overlay }) {
  const names = overlay ? overlayNames(overlay) : [];
  if (!overlay || !names.includes(term.name.toLowerCase())) {
    if (term.kind === "compare" && /^!?=$/.test(term.op)) return textTest(plain(term.words));
    const there = overlay ? `the overlay is called ${names.join(", ")}` : "this view has no overlay";
    throw new QueryError(`there are no numbers called ${term.name}: ${there}`, term.at);
  }
  return (f) => {
    const given = overlay.values.get(f.id), value = Number.isNaN(given) ? Infinity : given;
    if (value === undefined) return false;
    return term.kind === "range" ? value >= term.low && value <= term.high : ordered(value, term.op, term.number);
  };
}

/** The names of an overlay: its own, its words, its unit, `value`; `error` on a scale of errors. @param {Overlay} o */
function overlayNames({ name, unit, scale }) {
  const own = name.toLowerCase(), all = [own, ...own.split(/\s+/), unit.toLowerCase(), "value", scale === "magma" ? "error" : ""];
  return [...new Set(all.filter(Boolean))];
}

/**
 * The ids of the instructions that a query finds, in their order.
 * @param {string} text
 * @param {Facts[]} facts
 * @param {Known} known
 */
function findIds(text, facts, known) {
  const term = parseQuery(text);
  if (!term) return [];
  const test = testOf(term, known);
  return facts.filter(test).map((f) => f.id);
}

export { QueryError, findIds, parseQuery };
