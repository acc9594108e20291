// The search of a graph view: the field, what is wrong with a query, and the list of hits, of which only rows in view exist.

import { button, div, h, moved, searchField, soft, take } from "./dom.js";
import { count } from "./format.js";
import { QueryError } from "./query.js";

const ROW = 40, MARGIN = 6, SETTLE_MS = 250;

class Search {
  /** @param {Searched} owner */
  constructor(owner) {
    this.owner = owner;
    this.prefix = "wb" + Math.random().toString(36).slice(2, 8);
    /** Ids of the hits. @type {number[]} */
    this.hits = [];
    /** The active row, and the hit that was selected last. */
    this.at = this.went = -1;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.field = searchField("Search", "Search instructions", () => this.typed(), (e) => this.key(e));
    for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-autocomplete": "list", "aria-controls": this.prefix })) this.field.setAttribute(name, value);
    this.label = h("span", { class: "wb-hits" });
    this.steps = h("span", { hidden: true },
      button("‹", "Previous hit (N)", () => this.step(-1), { class: "wb-button wb-narrow" }), button("›", "Next hit (n)", () => this.step(1), { class: "wb-button wb-narrow" }));
    this.rows = div("hitrows");
    this.list = h("div", { class: "wb-hitlist", role: "listbox", id: this.prefix, "aria-label": "Hits", tabIndex: -1, onscroll: () => this.fill() }, this.rows);
    this.error = h("div", { class: "wb-wrong", role: "alert" });
    this.panel = h("div", { class: "wb-results", hidden: true, onmousedown: (/** @type {Event} */ e) => e.preventDefault() }, this.error, this.list);
    this.el = h("span", { class: "wb-searching" }, this.field, this.label, this.steps);
  }

  get text() { return this.field.value; }

  focus() { this.field.focus(); }

  typed() {
    this.run();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.owner.set({ query: this.text }), SETTLE_MS);
  }

  /** Set the query, e.g. from Python. @param {string} text */
  ask(text) {
    if (text === this.text) return;
    this.field.value = text;
    this.run();
  }

  /** Find the hits of the query and mark them; a wrong query has none. */
  run() {
    const asked = this.text.trim() !== "";
    this.hits = [];
    this.error.replaceChildren();
    try {
      this.hits = this.owner.ids(this.text);
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      this.explain(error);
    }
    const wrong = this.error.childNodes.length > 0, n = this.hits.length;
    this.at = this.went = -1;
    this.label.textContent = !asked ? "" : wrong ? "?" : n ? count(n, "match", "matches") : "none";
    this.label.classList.toggle("wb-is-wrong", wrong);
    this.field.setAttribute("aria-invalid", String(wrong));
    this.steps.hidden = !n;
    this.owner.mark(asked && !wrong ? new Set(this.hits) : null);
    this.owner.say(wrong ? this.error.textContent ?? "" : this.label.textContent);
    this.panel.hidden = !n && !wrong;
    this.field.setAttribute("aria-expanded", String(!this.panel.hidden));
    this.owner.arrange();
    this.list.scrollTop = 0;
    this.fill();
  }

  /** Show the query, the position of the mistake under it, and what was expected. @param {QueryError} error */
  explain({ at, message }) {
    const text = this.text, from = Math.max(0, at - 24);
    this.error.append(
      h("pre", { "aria-hidden": "true" }, (from ? "…" : "") + text.slice(from, at + 14) + "\n" + " ".repeat(at - from + (from ? 1 : 0)) + "▲"),
      h("div", {}, `Position ${at + 1}: ${message}.`));
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const n = this.hits.length, to = e.key === "Home" || e.key === "End" ? undefined : moved(e, this.at, n);
    e.stopPropagation();
    if (to !== undefined) {
      this.activate(to);
      take(e);
    } else if (e.key === "Enter") {
      if (this.at >= 0 && this.at !== this.went) this.go(this.at);
      else this.step(e.shiftKey ? -1 : 1);
    } else if (e.key === "Escape") {
      this.clear();
      take(e);
    }
  }

  clear() {
    this.ask("");
    this.owner.set({ query: "" });
    this.owner.panes[0].tree.focus();
  }

  /** Select the next hit. @param {number} by */
  step(by) {
    const n = this.hits.length;
    if (n) this.go(this.at < 0 && by < 0 ? n - 1 : (this.at + by + n) % n);
  }

  /** Select a hit, in the middle of the view. @param {number} k */
  go(k) {
    const id = this.hits[k];
    this.went = k;
    this.activate(k);
    this.label.textContent = `${k + 1} of ${this.hits.length.toLocaleString("en")}`;
    this.owner.show(id);
    this.owner.centre(id);
  }

  /** Make a row the active one, and scroll to it. @param {number} k */
  activate(k) {
    this.at = k;
    const { list } = this, room = list.clientHeight;
    if (k * ROW < list.scrollTop) list.scrollTop = k * ROW;
    else if (room && (k + 1) * ROW > list.scrollTop + room) list.scrollTop = (k + 1) * ROW - room;
    this.fill();
  }

  /** Make the rows that are in view. */
  fill() {
    const n = this.hits.length, { list } = this;
    list.hidden = !n;
    if (this.panel.hidden || !n) return;
    this.rows.style.height = n * ROW + "px";
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - MARGIN), last = Math.min(n, first + Math.ceil((list.clientHeight || 320) / ROW) + 2 * MARGIN);
    const shown = this.hits.slice(first, last).map((id, k) => this.row(id, first + k));
    this.rows.replaceChildren(...shown);
    if (this.at >= first && this.at < last) this.field.setAttribute("aria-activedescendant", `${this.prefix}-${this.at}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  /**
   * @param {number} id
   * @param {number} k
   */
  row(id, k) {
    const { name, title, fact, note } = this.owner.hitText(id);
    return h("div", {
      class: "wb-hitrow" + (k === this.at ? " wb-chosen" : ""), role: "option", id: `${this.prefix}-${k}`, "aria-posinset": k + 1, "aria-setsize": this.hits.length,
      "aria-selected": String(k === this.at), style: `top: ${k * ROW}px`, "data-id": id, onclick: () => this.go(k),
    }, div("line", h("code", {}, name), h("strong", {}, title), soft(fact)), div("soft wb-from", note));
  }

  destroy() { clearTimeout(this.timer); }
}

export { Search };
