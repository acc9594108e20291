// Source, text form and machine code: lines with numbers, coloured by a few patterns, searched, copied.

import { count } from "./format.js";
import { copyText, h } from "./dom.js";

const CHUNK = 1500;
/** @param {string} text */
const wordSet = (text) => new Set(text.split(" "));

const C_WORDS = wordSet("if else for while do return const static struct typedef union switch case break continue default restrict volatile inline sizeof extern goto");
const C_TYPES = wordSet("void bool char short int long float double half unsigned signed i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 bf16 uint ulong uchar ushort size_t float2 float4 int2 int4 uint2 uint4");
const C_TOKEN = /(\/\/.*|\/\*.*?(?:\*\/|$))|("(?:[^"\\]|\\.)*")|(^\s*#\s*\w+)|(\b(?:0x[\da-fA-F]+|\d+\.?\d*(?:[eEpP][+-]?\d+)?)[uUlLfFhH]*)|([A-Za-z_]\w*)/g;
const IR_TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*")|((?:[\w.]+:)*@\w+)|(\b\w+_type\b)|(-?\b\d+\.?\d*(?:e[+-]?\d+)?\b)|([A-Za-z_][\w.]*)/g;
const ASM_TOKEN = /(\/\/.*|\/\*.*?\*\/|#.*$)|(^[\w.$@]+:$|^\s*[.$]\w+:)|(^\s*[0-9a-f]+:)|(%\w+|\b(?:U?[RP]\d+|U?RZ|U?PT|[vsa]\d+|[vsa]\[[\d:]+\]|vcc|exec|scc|[xyz]mm\d+|k[0-7]|r(?:[abcd]x|[sd]i|[bs]p|ip|\d+[dwb]?)|e(?:[abcd]x|[sd]i|[bs]p)|[abcd]l|[cdefgs]s)\b)|((?:\b0x[\da-fA-F]+|\b\d+)\b)|([A-Za-z_.][\w.]*)/g;

/** @typedef {(match: RegExpExecArray, line: string, first: boolean) => string} Kind */

/** @type {Kind} */
const kindInC = (m) => (m[1] ? "comment" : m[2] ? "string" : m[3] ? "macro" : m[4] ? "number"
  : C_WORDS.has(m[0]) ? "keyword" : C_TYPES.has(m[0]) ? "type" : /^[A-Z][A-Z0-9_]{2,}$/.test(m[0]) ? "macro" : "");
/** @type {Kind} */
const kindInText = (m, line) => (m[1] ? "comment" : m[2] ? "string" : m[3] ? "name" : m[4] ? "type" : m[5] ? "number"
  : m[0] === "module" || line.slice(0, m.index).endsWith("= ") ? "keyword" : "");
/** @type {Kind} */
const kindInMachineCode = (m, _line, first) => (m[1] ? "comment" : m[2] ? "macro" : m[3] ? "soft" : m[4] ? "name" : m[5] ? "number"
  : m[0].startsWith(".") ? "type" : first ? "keyword" : "");
/** @type {Record<string, [RegExp, Kind]>} */
const LANGUAGES = { c: [C_TOKEN, kindInC], ir: [IR_TOKEN, kindInText], asm: [ASM_TOKEN, kindInMachineCode] };

/**
 * One line, split into texts with their kinds; the kind is empty for text without one.
 * @param {string} line
 * @param {string} language `c`, `ir`, `asm`, or one without colours
 */
function pieces(line, language) {
  /** @type {[text: string, kind: string][]} */
  const found = [];
  const [pattern, kindOf] = LANGUAGES[language] ?? [];
  if (!pattern || !kindOf || line.length > 2000) return [/** @type {[string, string]} */ ([line, ""])];
  let at = 0, first = true;
  for (const m of line.matchAll(pattern)) {
    const kind = kindOf(m, line, first);
    if (kind === "keyword") first = false;
    if (!kind) continue;
    if (m.index > at) found.push([line.slice(at, m.index), ""]);
    found.push([m[0], kind]);
    at = m.index + m[0].length;
  }
  if (at < line.length) found.push([line.slice(at), ""]);
  return found;
}

/** A text with line numbers. Its first lines may be folded. */
class Code {
  /** @param {(text: string) => void} say */
  constructor(say) {
    this.say = say;
    this.el = h("div", { class: "wb-code", tabIndex: 0, role: "tabpanel" });
    this.text = "";
    this.language = "";
    /** @type {string[]} */
    this.lines = [];
    /** The drawn lines. @type {(HTMLElement | undefined)[]} */
    this.made = [];
    this.next = 0;
    this.folded = 0;
    /** Numbers of the lines that match. @type {number[]} */
    this.hits = [];
    this.at = -1;
    this.words = "";
    this.set("", "c", 0);
  }

  /**
   * Show a text; its first `folded` lines are hidden behind a button.
   * @param {string} text
   * @param {string} language
   * @param {number} folded
   * @param {string} label
   */
  set(text, language, folded, label = "") {
    this.text = text;
    this.lines = text.replace(/\n$/, "").split("\n");
    this.language = language;
    this.folded = folded;
    this.el.setAttribute("aria-label", label);
    this.el.scrollTop = this.el.scrollLeft = 0;
    this.draw();
  }

  draw() {
    const digits = String(this.lines.length).length;
    this.el.style.setProperty("--wb-digits", digits + "ch");
    this.made = [];
    this.el.replaceChildren();
    if (this.folded) this.el.append(h("button", {
      class: "wb-fold", "aria-expanded": "false", onclick: () => { this.unfold(); this.el.focus(); },
    }, `▸ lines 1 to ${this.folded}: the prologue, which all kernels share`));
    this.next = this.folded;
    this.more(this.next + CHUNK);
  }

  unfold() {
    this.folded = 0;
    this.draw();
    this.find(this.words);
  }

  /** Draw lines up to `end`; a button shows more. @param {number} end */
  more(end) {
    this.el.querySelector(":scope > .wb-more")?.remove();
    for (; this.next < Math.min(end, this.lines.length); this.next++) {
      const row = h("div", { class: "wb-codeline", "data-n": this.next + 1 },
        pieces(this.lines[this.next], this.language).map(([text, kind]) => (kind ? h("span", { class: "wb-c-" + kind }, text) : text)), "\n");
      this.made[this.next] = row;
      this.el.append(row);
    }
    const left = this.lines.length - this.next;
    if (left > 0) this.el.append(h("button", {
      class: "wb-more", onclick: () => this.more(this.next + CHUNK),
    }, `Show ${Math.min(CHUNK, left).toLocaleString("en")} of ${left.toLocaleString("en")} more lines`));
  }

  /** Mark the lines that contain the text; returns their number. @param {string} text */
  find(text) {
    this.words = text;
    const wanted = text.toLowerCase();
    for (const k of this.hits) this.made[k]?.classList.remove("wb-hit", "wb-here");
    this.hits = wanted ? this.lines.flatMap((line, k) => (line.toLowerCase().includes(wanted) ? [k] : [])) : [];
    this.at = -1;
    for (const k of this.hits) this.made[k]?.classList.add("wb-hit");
    return this.hits.length;
  }

  /** Go to the next match; returns its number in words. @param {number} by */
  step(by) {
    if (!this.hits.length) return "none";
    this.made[this.hits[this.at]]?.classList.remove("wb-here");
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    const k = this.hits[this.at];
    if (k < this.folded) {
      const at = this.at;
      this.unfold();
      this.at = at;
    }
    if (k >= this.next) {
      this.more(k + CHUNK);
      for (const hit of this.hits) this.made[hit]?.classList.add("wb-hit");
    }
    this.made[k]?.classList.add("wb-here");
    this.made[k]?.scrollIntoView({ block: "nearest" });
    return `${this.at + 1} of ${count(this.hits.length, "line")}`;
  }

  copy() {
    copyText(this.text, `Copied ${count(this.lines.length, "line")}`, this.say);
  }
}

export { Code, pieces };
