// An exercise without Python: what Python says to likely answers, each sealed by its answer. See teach/stored.py.

import { button, h } from "./dom.js";
import { Shell, renderer } from "./shell.js";

/** Numbers that follow from a text and look random. @param {string} text */
function stream(text) {
  let s = 2166136261;
  for (const c of text) s = Math.imul(s ^ /** @type {number} */ (c.codePointAt(0)), 16777619);
  return () => (s = (Math.imul(s ^ (s >>> 15), 2246822519) + 374761393) | 0) >>> 0;
}

/**
 * @param {string} sealed
 * @param {string} key
 */
function unsealed(sealed, key) {
  const next = stream(key);
  return new TextDecoder().decode(Uint8Array.from(atob(sealed), (c) => c.charCodeAt(0) ^ (next() >>> 24)));
}

/** What stands between backticks is code. @param {string} text */
const worded = (text) => text.split("\x60").map((part, k) => (k % 2 ? h("code", {}, part) : part));

class Exercise extends Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    super(model, el, "wb-exercise", 0);
    const [question, by, note, choices, digits, salt, hints] = ["question", "by", "note", "choices", "digits", "salt", "hints"].map((name) => model.get(name));
    let given = () => `${model.get("selected") ?? ""}`, shown = 0;
    const said = h("p", { role: "status" });
    const check = () => {
      const answer = given(), key = digits === null ? answer.replace(/\s/g, "").toLowerCase() : Number(answer).toExponential(digits);
      const sealed = model.get("sealed")[stream(salt + key)()], words = sealed ? unsealed(sealed, key + salt) : "0" + model.get("otherwise");
      if (answer.trim()) said.replaceChildren(h("strong", {}, +words[0] ? "✓ Right. " : "✗ Not yet. "), ...worded(words.slice(1)));
      else said.replaceChildren("There is no answer yet.");
    };
    const hint = () => {
      said.replaceChildren(...worded(unsealed(hints[shown], salt)));
      shown = Math.min(shown + 1, hints.length - 1);
    };
    const field = h("input", { "aria-label": question, onkeydown: (/** @type {KeyboardEvent} */ e) => e.key === "Enter" && check() });
    const list = h("div", { role: "radiogroup", "aria-label": question }, (choices ?? []).map((/** @type {string} */ value) =>
      h("label", {}, h("input", { type: "radio", name: salt, value }), worded(value))));
    if (choices) given = () => /** @type {HTMLInputElement | null} */ (list.querySelector(":checked"))?.value ?? "";
    else if (by === "field") given = () => field.value;
    this.root.append(
      h("strong", {}, worded(question)),
      choices ? list : by === "field" ? field : h("p", {}, worded(note)),
      h("div", {}, by !== "code" && button("Check", "Check the answer", check), hints.length > 0 && button("Hint", "Show the next hint", hint)),
      said,
    );
  }
}

const render = renderer((model, el) => new Exercise(model, el));

export { render };
