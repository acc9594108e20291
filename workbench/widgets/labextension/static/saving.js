// Live views in a notebook that is saved: their outputs get the state in which they are seen.

import { SAVED, WIDGET } from "./output.js";
import { viewsOf } from "./stored.js";

const LIMIT = 200_000;

/** Bytes as base64; anything else as it is. @param {any} value */
function encoded(value) {
  if (!(value instanceof DataView || value instanceof ArrayBuffer || ArrayBuffer.isView(value))) return value ?? null;
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  let text = "";
  for (let k = 0; k < bytes.length; k += 4096) text += String.fromCharCode(...bytes.subarray(k, k + 4096));
  return bytes.length ? { base64: btoa(text) } : null;
}

/** @param {unknown} value */
const same = (value) => JSON.stringify(value ?? null);

/**
 * A saved view with the values that the live one has now, and with the answers that are still true.
 * @param {SavedView} view
 * @param {{ get(name: string): any }} model
 * @returns {SavedView}
 */
function renewed(view, model) {
  const values = Object.fromEntries(Object.keys(view.values).map((name) => [name, name === "stored" ? true : encoded(model.get(name))]));
  /** @type {SavedView["answers"]} */
  const answers = {};
  for (const [asked, { trait, by }] of Object.entries(view.answers)) {
    const data = trait.replace(/detail$/, "data"), kept = same(values[data]) === same(view.values[data]) ? by : {};
    answers[asked] = { trait, by: { ...kept, [String(values[asked])]: values[trait] } };
  }
  return { ...view, values, answers };
}

/**
 * The saved form of a live view, unless it would be too large; without answers if it would be with them.
 * @param {any} form the saved form of the output
 * @param {{ get(name: string): any }} model
 */
function formOf(form, model) {
  const [view] = viewsOf(form), now = renewed(view, model);
  const forms = [now, { ...now, answers: {} }].map((one) => ({ ...form, views: [one] }));
  return forms.find((one) => JSON.stringify(one).length <= LIMIT) ?? form;
}

/**
 * Bring the outputs of a notebook up to date.
 * @param {any} notebook its model
 * @param {Map<string, any>} models the live widgets' models by id
 */
function renew(notebook, models) {
  for (const cell of notebook.cells) {
    for (let k = 0; k < (cell.outputs?.length ?? 0); k++) {
      const output = cell.outputs.get(k), form = output.data[SAVED], model = models.get(output.data[WIDGET]?.model_id);
      if (!model || viewsOf(form).length !== 1) continue;
      const now = formOf(form, model);
      if (same(now) !== same(form)) cell.outputs.set(k, { ...output.toJSON(), data: { ...output.data, [SAVED]: now } });
    }
  }
}

export { formOf, renew };
