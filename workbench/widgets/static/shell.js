// The base of all views: the frame, theme, selection, messages, and synchronised traits.

import { button, copyText, failure, h, decode, isDark, onTheme } from "./dom.js";
import { colors } from "./draw.js";
import { hashOf, traitsOf } from "./link.js";

class Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {string} kind the class of the root
   * @param {number} height in pixels, if the model has none
   */
  constructor(model, el, kind, height) {
    this.model = model;
    this.el = el;
    /** @type {(() => void)[]} */
    this.cleanup = [];
    this.status = h("div", { class: "wb-live", role: "status", "aria-live": "polite" });
    this.root = h("div", { class: `wb-root ${kind}` });
    this.root.style.setProperty("--wb-height", (model.get("height") ?? height) + "px");
    el.replaceChildren(this.root);
    /** @type {number | null} */
    this.selected = model.get("selected") ?? null;
    /** @type {string} */
    this.choice = model.get("theme") ?? "auto";
    this.theme = colors(isDark(this.choice));
    this.retheme();
    this.cleanup.push(onTheme(() => this.retheme()));
    this.on("theme", () => {
      this.choice = model.get("theme");
      this.retheme();
    });
    this.on("selected", () => this.select(model.get("selected") ?? null, null));
  }

  /**
   * @param {string} name
   * @param {() => void} callback
   */
  on(name, callback) {
    this.model.on("change:" + name, callback);
    this.cleanup.push(() => this.model.off("change:" + name, callback));
  }

  /** Set traits, in the browser and in Python. @param {Record<string, unknown>} values */
  set(values) {
    for (const [key, value] of Object.entries(values)) this.model.set(key, value);
    this.model.save_changes();
  }

  /**
   * Select an instruction; without a pane, the selection came from Python or another view.
   * @param {number | null} id
   * @param {Pane | null} _pane
   */
  select(id, _pane) { this.selected = id; }

  retheme() {
    const dark = isDark(this.choice);
    this.theme = colors(dark);
    this.root.classList.toggle("wb-dark", dark);
    this.root.classList.toggle("wb-light", !dark);
  }

  switchTheme() {
    this.choice = this.theme.dark ? "light" : "dark";
    this.set({ theme: this.choice });
    this.retheme();
  }

  themeButton() { return button("◐", "Light or dark", () => this.switchTheme()); }

  /** A button that copies the address of this state, on a page of its own; elsewhere nothing. */
  linkButton() {
    if (/** @type {any} */ (window).__wbModel !== this.model) return null;
    return button("Copy link", "Copy a link to what is shown", () => {
      const address = location.href.split("#")[0] + hashOf(this.model);
      history.replaceState(null, "", address);
      copyText(address, "The link is in the clipboard", (words) => this.say(words), () => this.say("The link is in the address bar"));
    });
  }

  /** Announce a text to screen readers. @param {string} text */
  say(text) { this.status.textContent = text; }

  destroy() { for (const undo of this.cleanup) undo(); }
}

/**
 * The function that anywidget calls: make the view, or show the error.
 * @template {Shell} T
 * @param {(model: Model, el: HTMLElement, data: any) => T | Promise<T>} make
 */
const renderer = (make) => async (/** @type {Rendering} */ { model, el }) => {
  try {
    const shell = await make(model, el, await decode(model.get("data")));
    return () => shell.destroy();
  } catch (error) {
    failure(el, error);
  }
};

/**
 * Show what the page's address says, now and when it changes.
 * @param {Model} model
 */
function followAddress(model) {
  const follow = () => {
    for (const [name, value] of Object.entries(traitsOf(location.hash))) model.set(name, value);
  };
  follow();
  addEventListener("hashchange", follow);
}

export { Shell, followAddress, renderer };
