// Outputs of views: the live widget while its kernel has it; else the view from its saved form, or its static form.

import { draw, viewsOf } from "./stored.js";

const SAVED = "application/vnd.graph-workbench.view+json";
const WIDGET = "application/vnd.jupyter.widget-view+json";
const RANK = -20;
const GRACE_MS = 400, STEP_MS = 100, PATIENCE_MS = 3000, LIMIT_MS = 60000;
const NOTE = "Drawn from the notebook. Run the cell to work with it.";

/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * The class of such outputs.
 * @param {any} lumino the module `@lumino/widgets`
 */
const outputClass = ({ Panel, Widget }) => class extends Panel {
  /** @param {Lab.Place} place */
  constructor(place) {
    super();
    this.place = place;
    /** The widget that is shown, while it lives. @type {string | null} */
    this.living = null;
    /** Counts what was asked to be rendered: what comes too late is dropped. */
    this.turn = 0;
    /** Takes the saved views away. @type {(() => void) | undefined} */
    this.end = undefined;
  }

  /** @param {Lab.Mime} model */
  async renderModel(model) {
    const id = model.data[WIDGET]?.model_id;
    if (id && this.living === id) return;
    const turn = ++this.turn;
    this.empty();
    // A model of the page is alive only if a cell of this notebook was run, or its reader trusts it.
    const live = id && model.trusted ? this.live(model, id, turn) : Promise.resolve(false);
    const isLive = await Promise.race([live, wait(GRACE_MS)]);
    if (!isLive && this.isCurrent(turn)) await this.stored(model, turn);
  }

  /** @param {number} turn */
  isCurrent(turn) { return turn === this.turn && !this.isDisposed; }

  empty() {
    this.end?.();
    this.end = undefined;
    this.living = null;
    for (const widget of [...this.widgets]) widget.dispose();
  }

  /**
   * Show the live widget once the kernel is known to have it.
   * @param {Lab.Mime} model
   * @param {string} id
   * @param {number} turn
   */
  async live(model, id, turn) {
    const manager = await this.place.manager;
    for (let ms = 0; !manager.has_model(id); ms += STEP_MS) {
      const isOver = manager.restoredStatus ? ms > PATIENCE_MS : ms > LIMIT_MS;
      if (isOver || !this.isCurrent(turn)) return false;
      await wait(STEP_MS);
    }
    const live = await manager.get_model(id), view = await manager.create_view(live), widget = view.luminoWidget;
    if (!this.isCurrent(turn)) {
      widget.dispose();
      return false;
    }
    this.empty();
    this.turn += 1;
    this.living = id;
    this.place.models.set(id, live);
    this.addWidget(widget);
    const shown = this.turn;
    widget.disposed.connect(() => {
      if (!manager.has_model(id)) this.place.models.delete(id);
      if (this.isCurrent(shown)) this.stored(model, shown);
    });
    return true;
  }

  /**
   * Show what the notebook holds.
   * @param {Lab.Mime} model
   * @param {number} turn
   */
  async stored(model, turn) {
    this.empty();
    const views = viewsOf(model.data[SAVED]), host = new Widget();
    if (!views.length) return this.still(model, turn);
    this.addWidget(host);
    try {
      const end = await draw(views, host.node);
      if (!this.isCurrent(turn) || host.isDisposed) return end();
      this.end = end;
      const note = host.node.appendChild(document.createElement("div"));
      note.className = "wb-savednote";
      note.textContent = NOTE;
    } catch (error) {
      console.warn(error);
      if (this.isCurrent(turn)) this.still(model, turn);
    }
  }

  /**
   * Show the static form.
   * @param {Lab.Mime} model
   * @param {number} turn
   */
  async still(model, turn) {
    this.empty();
    const { rendermime } = this.place, picture = model.data["image/svg+xml"];
    if (picture) {
      // An image runs no scripts, so it needs no trust.
      const image = Object.assign(document.createElement("img"), { className: "wb-still", alt: [model.data["text/plain"]].flat().join("") });
      image.src = "data:image/svg+xml," + encodeURIComponent([picture].flat().join(""));
      this.addWidget(new Widget({ node: image }));
      return;
    }
    const data = { ...model.data, [SAVED]: undefined, [WIDGET]: undefined };
    const present = Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined));
    const mime = rendermime.preferredMimeType(present, model.trusted ? "any" : "ensure");
    if (!mime || !this.isCurrent(turn)) return;
    const renderer = rendermime.createRenderer(mime);
    this.addWidget(renderer);
    await renderer.renderModel(model);
  }

  dispose() {
    if (this.isDisposed) return;
    this.turn += 1;
    this.end?.();
    super.dispose();
  }
};

/**
 * Let a place show views. The saved form is data that only the views' own modules read, so it is safe.
 * @param {any} Output the class
 * @param {Lab.Place} place
 */
function addTo(Output, place) {
  place.rendermime.addFactory({ safe: true, mimeTypes: [SAVED], defaultRank: RANK, createRenderer: () => new Output(place) }, RANK);
}

/**
 * The widgets of a document's kernel, once it has one.
 * @param {any} widgets the module `@jupyter-widgets/jupyterlab-manager`
 * @param {{ sessionContext: Lab.SessionContext }} context
 * @param {any} rendermime
 * @returns {Promise<Lab.Manager>}
 */
async function managerOf(widgets, context, rendermime) {
  const session = context.sessionContext;
  await session.ready;
  if (!session.session?.kernel) await new Promise((resolve) => session.kernelChanged.connect(() => session.session?.kernel && resolve(undefined)));
  await wait(0); // the notebook's own registration comes first, so that it owns the manager
  return new Promise((resolve) => widgets.registerWidgetManager(context, rendermime, [{ set manager(/** @type {Lab.Manager} */ found) { resolve(found); } }]));
}

export { SAVED, WIDGET, addTo, managerOf, outputClass };
