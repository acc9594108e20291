// Bookmarks with notes: a panel with instructions and passes to go to.

import { button, h } from "./dom.js";
import { Menu } from "./menu.js";

class Bookmarks extends Menu {
  /** @param {Bookmarked} owner */
  constructor(owner) {
    super("Bookmarks", "☆", "Bookmarks");
    this.owner = owner;
    /** The instruction to show once its step is here. @type {number | null} */
    this.wanted = null;
  }

  /** @returns {Bookmark[]} */
  get list() { return this.owner.model.get("bookmarks") ?? []; }

  /** @param {Bookmark[]} bookmarks */
  set(bookmarks) {
    this.owner.set({ bookmarks });
    this.owner.redraw();
  }

  /** Mark what is selected; the note is written next. */
  add() {
    const { selected, index = null } = this.owner;
    if (selected === null && index === null) return this.owner.say("Select an instruction first");
    this.set([...this.list, [selected, index, ""]]);
    this.toggle(true);
    [...this.panel.querySelectorAll("input")].pop()?.focus();
  }

  /**
   * Go to a bookmark.
   * @param {number | null} id
   * @param {number | null} step
   */
  jump(id, step) {
    this.wanted = id;
    if (this.owner.go && step !== null && step !== this.owner.index) this.owner.go(step, true);
    else this.arrive();
  }

  /** Show the instruction of the bookmark that was followed. */
  arrive() {
    if (this.wanted !== null) this.owner.show(this.wanted);
    this.wanted = null;
  }

  parts() {
    const { owner, list } = this, live = owner.searched();
    return [button("Mark what is selected (b)", "Add a bookmark", () => this.add(), { class: "wb-button wb-do" }), ...list.map(([id, step, note], k) => {
      const name = [step !== null && owner.steps?.[step]?.name, id !== null && `${live.name(id)} ${live.node(id)?.title ?? ""}`].filter(Boolean).join(" ");
      /** @type {HTMLInputElement} */
      const field = h("input", { class: "wb-search", value: note, maxLength: 500, placeholder: "Note", "aria-label": "Note on " + name, onchange: () => this.set(this.list.with(k, [id, step, field.value])) });
      return h("div", { class: "wb-line" }, h("button", { class: "wb-link", onclick: () => this.jump(id, step) }, name), field, button("×", "Remove " + name, () => {
        this.set(this.list.toSpliced(k, 1));
        this.toggle(true);
      }));
    })];
  }
}

export { Bookmarks };
