// The models of saved views: they answer as Python did.

const VERSION = 2;
const ENTRY = /^(exercise|explorer|graph_view|kernel_view|report_view|tensor_view|workbench)\.js$/;

/** Text of base64 as bytes, in lists too; anything else as it is. @param {any} value @returns {any} */
function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (typeof value?.base64 !== "string") return value;
  return new DataView(Uint8Array.from(atob(value.base64), (c) => c.charCodeAt(0)).buffer);
}

/** The traits of a saved view. Where Python would set a trait in answer to another one, this does. */
class StoredModel {
  /** @param {SavedView} view */
  constructor({ values, answers }) {
    /** @type {Record<string, any>} */
    this.values = {};
    for (const [name, value] of Object.entries(values)) this.values[name] = decoded(value);
    this.answers = answers;
    /** @type {Map<string, Set<() => void>>} */
    this.heard = new Map();
    for (const asked of Object.keys(answers)) this.answer(asked);
  }

  /** @param {string} name */
  get(name) { return this.values[name]; }

  /**
   * @param {string} name
   * @param {unknown} value
   */
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    for (const callback of this.heard.get("change:" + name) ?? []) callback();
    this.answer(name);
  }

  /** @param {string} asked */
  answer(asked) {
    const { trait, by } = this.answers[asked] ?? {}, key = String(this.values[asked]);
    if (by && Object.hasOwn(by, key)) this.set(trait, decoded(by[key]));
  }

  save_changes() {}
  send() {}

  /**
   * @param {string} event
   * @param {() => void} callback
   */
  on(event, callback) {
    const callbacks = this.heard.get(event) ?? new Set();
    this.heard.set(event, callbacks.add(callback));
  }

  /**
   * @param {string} event
   * @param {() => void} callback
   */
  off(event, callback) { this.heard.get(event)?.delete(callback); }
}

/** Let views that show one program share their selection. @param {StoredModel[]} models */
function link(models) {
  for (const model of models) {
    model.on("change:selected", () => {
      for (const other of models) other.set("selected", model.get("selected"));
    });
  }
}

/** The views of a saved form that this version can draw. @param {any} form @returns {SavedView[]} */
function viewsOf(form) {
  const views = form?.version === VERSION && Array.isArray(form.views) ? form.views : [];
  return views.every((/** @type {any} */ view) => ENTRY.test(view?.entry) && view.values && view.answers) ? views : [];
}

export { StoredModel, link, viewsOf };
