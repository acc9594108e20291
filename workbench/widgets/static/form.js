// The settings of a workbench: target, device, precision, inputs, and the passes with their switches.

import { button, div, h, searchField, soft, spring } from "./dom.js";
import { wordsOf } from "./format.js";

const BEST = { "": "best" };

class Form {
  /**
   * @param {FrameData} data
   * @param {(settings: Settings) => void} change
   * @param {boolean} fixed whether nothing can be changed, for want of a kernel
   */
  constructor(data, change, fixed) {
    this.data = data;
    this.change = change;
    this.fixed = fixed;
    /** @type {Settings | null} */
    this.settings = null;
    this.passes = div("switches");
    this.filter = searchField("Filter passes", "Filter passes", () => this.sift());
    this.target = this.select("target", "Target", data.targets.map((t) => ({ value: t.name, text: t.name + (t.missing ? " (missing)" : ""), title: t.missing || t.what })), { auto: "auto" });
    this.device = this.select("device", "Device", [], BEST);
    this.precision = this.select("precision", "Precision", data.precisions.filter(Boolean).map((p) => ({ value: p, text: p, title: p })), { "": "as typed" });
    this.seed = h("input", { type: "number", min: 0, step: 1, disabled: fixed, onchange: () => this.set({ seed: Math.max(0, Math.trunc(Number(this.seed.value)) || 0) }) });
    this.inputs = h("input", { type: "text", placeholder: "generated", disabled: fixed, spellcheck: false, onchange: () => this.set({ inputs: this.inputs.value.trim() }) });
    for (const field of [this.seed, this.inputs]) field.addEventListener("keydown", (e) => e.stopPropagation());
    this.el = div("form",
      this.row("Target", this.target), this.row("Device", this.device), this.row("Precision", this.precision),
      this.row("Seed", this.seed), this.row("Inputs", this.inputs, ".npz or .npy file; without one, inputs are generated from the seed"),
      div("formhead", h("strong", {}, "Passes"), spring(), this.filter,
        button("↺", "All passes on, in their own order", () => this.set({ off: [], order: [] }), { disabled: fixed })),
      this.passes);
  }

  /**
   * @param {string} key
   * @param {string} label
   * @param {{ value: string, text: string, title: string }[]} options
   * @param {Record<string, string>} first
   */
  select(key, label, options, first) {
    const field = h("select", { "aria-label": label, disabled: this.fixed, onchange: () => this.set({ [key]: field.value }) });
    this.fill(field, options, first);
    return field;
  }

  /**
   * @param {HTMLSelectElement} field
   * @param {{ value: string, text: string, title: string }[]} options
   * @param {Record<string, string>} first
   */
  fill(field, options, first) {
    field.replaceChildren(...Object.entries(first).map(([value, text]) => h("option", { value }, text)),
      ...options.map((o) => h("option", { value: o.value, title: o.title }, o.text)));
  }

  /**
   * @param {string} label
   * @param {HTMLElement} field
   * @param {string} title
   */
  row(label, field, title = "") { return h("label", { class: "wb-field", title }, h("span", {}, label), field); }

  /** @param {Partial<Settings>} values */
  set(values) { if (this.settings && !this.fixed) this.change({ ...this.settings, ...values }); }

  /**
   * Show the settings and what there is to choose from.
   * @param {Settings} settings
   * @param {Choices} choices
   */
  show(settings, choices) {
    this.settings = settings;
    this.fill(this.device, choices.devices.map((d) => ({ value: d, text: d, title: d })), BEST);
    this.device.disabled = this.fixed || !choices.devices.length;
    this.target.value = settings.target;
    this.device.value = settings.device;
    this.precision.value = settings.precision;
    this.seed.value = String(settings.seed);
    this.inputs.value = settings.inputs;
    const order = settings.order.length ? settings.order : choices.pipeline.map((_, k) => k);
    this.passes.replaceChildren(...order.map((k, at) => this.entry(choices.pipeline[k], order, at)));
    this.sift();
  }

  /**
   * A pass, or a pipeline within: its switches, and buttons that move it.
   * @param {Choices["pipeline"][number]} entry
   * @param {number[]} order
   * @param {number} at
   */
  entry(entry, order, at) {
    /** @type {(to: number) => void} */
    const move = (to) => this.set({ order: swapped(order, at, to) });
    const nested = entry.passes.length > 1 || entry.passes[0]?.name !== entry.label;
    const tools = [
      button("↑", `Move ${entry.label} up`, () => move(at - 1), { disabled: this.fixed || at === 0 }),
      button("↓", `Move ${entry.label} down`, () => move(at + 1), { disabled: this.fixed || at === order.length - 1 }),
    ];
    const lines = entry.passes.map((p) => this.line(p, nested ? [] : tools));
    return div("entry", nested ? div("switch wb-nest", soft(entry.label), spring(), tools) : null, lines);
  }

  /**
   * @param {{ name: string, summary: string, on: boolean }} pass
   * @param {HTMLElement[]} tools
   */
  line(pass, tools) {
    const off = new Set(this.settings?.off ?? []);
    const box = h("input", { type: "checkbox", checked: pass.on, disabled: this.fixed, onchange: () => {
      if (box.checked) off.delete(pass.name);
      else off.add(pass.name);
      this.set({ off: [...off].toSorted() });
    } });
    return h("div", { class: "wb-switch", "data-pass": pass.name }, h("label", { title: pass.summary }, box, h("span", {}, pass.name)), spring(), tools);
  }

  /** Show the passes whose name has the filter's words. */
  sift() {
    const words = wordsOf(this.filter.value);
    for (const line of this.passes.querySelectorAll("[data-pass]"))
      /** @type {HTMLElement} */ (line).hidden = !words.every((w) => (line.getAttribute("data-pass") ?? "").includes(w));
  }
}

/**
 * A copy of a list with one element moved.
 * @param {number[]} list
 * @param {number} from
 * @param {number} to
 */
function swapped(list, from, to) {
  const found = [...list], [moved] = found.splice(from, 1);
  found.splice(to, 0, moved);
  return found;
}

export { Form, swapped };
