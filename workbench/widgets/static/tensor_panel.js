// The tensor inspector: a slice as a heatmap, an element and its neighbours, charts and distances.

import { Cells, drawCells, logShare, mark, placed } from "./tensor_cells.js";
import { Tabs, button, decode, div, h, take } from "./dom.js";
import { chartElement, drawChart } from "./tensor_charts.js";
import { inkOn, sample } from "./draw.js";
import { number } from "./format.js";

const HIGH = 330, SETTLE_MS = 60, PATIENCE_MS = 8000;
const LAYERS = { error: "Error", value: "Value", reference: "Reference", image: "Image" };

/** @typedef {import("./tensor_cells.js").Layer} Layer */

class TensorPanel {
  /** @param {import("./shell.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    /** @type {TensorData | null} */
    this.data = null;
    /** @type {TensorDetail | null} */
    this.detail = null;
    /** @type {Cells | null} */
    this.cells = null;
    this.channel = 0;
    /** @type {number | undefined} */
    this.moving = undefined;
    /** @type {number | undefined} */
    this.late = undefined;
    /** @type {ReturnType<typeof chartElement>[]} */
    this.charts = [];
    this.el = div("tensor");
    /** @type {ReturnType<TensorPanel["slider"]>[]} */
    this.sliders = [];
    /** The axes that the controls are for. */
    this.axes = "";
    this.canvas = h("canvas", {
      class: "wb-heat", role: "application", tabIndex: 0, "aria-roledescription": "heatmap", onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e),
      onclick: (/** @type {MouseEvent} */ e) => this.click(e), onmousemove: (/** @type {MouseEvent} */ e) => this.hover(e), onmouseleave: () => this.read(this.chosen),
    });
    this.tabs = new Tabs("Layer", (layer) => this.open(layer));
    this.controls = div("tools wb-axes");
    this.legend = div("legend");
    this.reading = div("reading");
    this.near = div("near");
    this.rows = div("charts");
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.el);
    for (const name of ["slice", "at"]) shell.on(name, () => this.controlled());
    shell.on("layer", () => this.layered());
    shell.on("detail", () => this.received());
    shell.cleanup.push(() => {
      this.observer.disconnect();
      clearTimeout(this.moving);
      clearTimeout(this.late);
    });
  }

  /** Show a tensor. @param {TensorData} data */
  load(data) {
    const axes = data.charts.flatMap((c) => c.axis ?? []);
    this.data = data;
    this.detail = this.cells = null;
    this.axes = "";
    this.controls.replaceChildren();
    this.channel = axes.includes(1) ? 1 : axes[0] ?? 0;
    const along = axes.length < 2 ? null : h("label", { class: "wb-check" }, "By index along", this.select("Axis of the errors by index", axes.map((k) => [k, `axis ${k} of ${data.lens[k]}`]), this.channel, (k) => {
      this.channel = Number(k);
      this.chart();
    }));
    this.el.replaceChildren(
      h("p", { class: "wb-statement" }, data.statement),
      div("parts",
        data.comparable && div("slice", div("tabbar", this.tabs.el), this.controls, this.canvas, this.legend, this.reading, this.near),
        div("figures", this.rows, along,
          h("table", { "aria-label": "Distances" }, h("tbody", {}, data.distances.map(([name, text]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, text))))))));
    this.chart();
    this.layered();
    return this.received();
  }

  /**
   * @param {string} label
   * @param {[string | number, string][]} options
   * @param {string | number} chosen
   * @param {(value: string) => void} choose
   */
  select(label, options, chosen, choose) {
    return h("select", { "aria-label": label, onchange: (/** @type {Event} */ e) => choose(/** @type {HTMLSelectElement} */ (e.target).value) },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  }

  get layer() {
    const layer = this.shell.model.get("layer");
    return /** @type {Layer} */ (layer === "image" && !this.cells?.image ? "error" : layer ?? "error");
  }

  get index() { return String(this.detail?.slice ?? "").split(",").filter(Boolean); }
  get at() { return String(this.shell.model.get("at") ?? "").split(",").filter(Boolean).map(Number); }

  /** The cell of the chosen element. */
  get chosen() {
    const axes = this.detail?.axes ?? [], at = axes.map((k) => this.at[k] ?? 0);
    return this.cells?.cell(at.length > 1 ? at[0] : 0, at.at(-1) ?? 0) ?? 0;
  }

  // From Python

  async received() {
    const detail = await decode(this.shell.model.get("detail"));
    if (!detail?.cells || !this.data?.comparable) return;
    clearTimeout(this.late);
    this.detail = detail;
    this.cells = new Cells(detail);
    this.control();
    this.layered();
    this.neighbours();
  }

  controlled() {
    this.neighbours();
    this.draw();
  }

  layered() {
    const labels = Object.entries(LAYERS).filter(([key]) => key !== "image" || this.data?.image !== null);
    this.tabs.show(Object.fromEntries(labels), this.layer);
    this.draw();
  }

  // Choosing

  /** @param {string} layer */
  open(layer) {
    this.shell.set({ layer });
    this.layered();
  }

  /** The axes that are drawn, a slider for each other one, and the way back to the worst element. */
  control() {
    const { data, detail, index, controls } = this;
    if (!data || !detail) return;
    if (data.stored || this.shell.model.get("stored")) {
      controls.textContent = `[${index.join(", ")}] of [${data.lens.join(", ")}]${index.length > 2 ? " · other slices need a running notebook" : ""}`;
      return;
    }
    const focused = controls.ownerDocument.activeElement, axes = detail.axes.join();
    if (this.axes === axes) return this.sliders.forEach(({ axis, input, said }) => input !== focused && (said.textContent = input.value = index[axis]));
    const label = controls.contains(focused) && focused?.getAttribute("aria-label"), pairs = data.lens.flatMap((_, b) => data.lens.slice(0, b).map((_n, a) => `${a},${b}`));
    this.axes = axes;
    this.sliders = data.lens.flatMap((n, k) => (detail.axes.includes(k) || n < 2 ? [] : [this.slider(k, n)]));
    controls.replaceChildren(
      pairs.length > 1 ? h("label", { class: "wb-check" }, "Axes", this.select("Axes of the slice", pairs.map((p) => [p, p.replace(",", " × ")]), axes, (p) => this.turn(p))) : "",
      ...this.sliders.map(({ axis, input, said }) => h("label", { class: "wb-check" }, `axis ${axis}`, input, said)),
      data.worst ? button("Worst", "Go to the element with the largest error", () => this.goto(data.worst ?? []), { class: "wb-link" }) : "");
    if (label) /** @type {HTMLElement | null} */ (controls.querySelector(`[aria-label="${label}"]`))?.focus();
  }

  /** @param {number} axis @param {number} n */
  slider(axis, n) {
    const said = h("span", { class: "wb-position" }, this.index[axis]);
    const input = h("input", { type: "range", min: 0, max: n - 1, value: this.index[axis], "aria-label": `Index along axis ${axis}`, oninput: () => {
      said.textContent = input.value;
      clearTimeout(this.moving);
      this.moving = setTimeout(() => this.ask(this.index.map((t, k) => (k === axis ? input.value : t))), SETTLE_MS);
    } });
    return { axis, input, said };
  }

  /** Draw other axes through the same element. @param {string} axes */
  turn(axes) {
    const kept = axes.split(",").map(Number);
    this.ask(this.at.map((n, k) => (kept.includes(k) ? ":" : String(n))));
  }

  /** Ask Python for a slice. @param {string[]} index */
  ask(index) {
    clearTimeout(this.late);
    this.late = setTimeout(() => (this.reading.textContent = "No kernel answers. Run the cell again to see other slices."), PATIENCE_MS);
    this.shell.set({ slice: index.join() });
  }

  /** Choose an element. @param {number[]} at */
  goto(at) {
    this.shell.set({ at: at.join() });
    this.controlled();
    this.shell.say(this.reading.textContent ?? "");
  }

  /** The index of the element of a cell. @param {number} k */
  indexOf(k) {
    const inner = this.cells?.element(k) ?? [0, 0], axes = this.detail?.axes ?? [];
    return this.index.map((t, axis) => (t === ":" ? inner[axes.indexOf(axis) + 2 - axes.length] : Number(t)));
  }

  /** The cell under the mouse, if any. @param {MouseEvent} e */
  under(e) {
    const { cells } = this, place = cells && this.layer !== "image" && this.place();
    if (!cells || !place) return null;
    const x = Math.floor((e.offsetX / place.w) * cells.w), y = Math.floor((e.offsetY / place.h) * cells.h);
    return x >= 0 && y >= 0 && x < cells.w && y < cells.h ? y * cells.w + x : null;
  }

  /** @param {MouseEvent} e */
  click(e) {
    const k = this.under(e);
    if (k !== null) this.goto(this.indexOf(k));
  }

  /** @param {MouseEvent} e */
  hover(e) {
    const k = this.under(e);
    this.read(k ?? this.chosen);
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const { cells } = this, way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!cells || !way) return;
    const k = this.chosen, y = Math.floor(k / cells.w) + way[0], x = (k % cells.w) + way[1];
    take(e);
    if (x >= 0 && y >= 0 && x < cells.w && y < cells.h) this.goto(this.indexOf(y * cells.w + x));
  }

  // Drawing

  place() { return this.cells ? placed(this.cells, this.layer, { w: this.canvas.clientWidth, h: HIGH }) : { x: 0, y: 0, w: 0, h: 0 }; }

  draw() {
    const { theme } = this.shell, { cells, canvas, layer } = this, k = Math.min(3, window.devicePixelRatio || 1);
    for (const chart of this.charts) drawChart(chart, theme);
    if (!cells || !canvas.clientWidth) return;
    const place = this.place(), ctx = canvas.getContext("2d");
    canvas.style.height = place.h + "px";
    canvas.width = canvas.clientWidth * k;
    canvas.height = place.h * k;
    ctx?.scale(k, k);
    if (ctx) drawCells(ctx, cells, layer, place, this.chosen);
    canvas.setAttribute("aria-label", `${LAYERS[layer]} of the slice ${this.index.join(", ")}; arrow keys move`);
    this.keys();
    this.read(this.chosen);
  }

  /** The colours in words. */
  keys() {
    const { cells, data, layer } = this;
    if (!cells || !data) return;
    const errors = layer === "error" || layer === "image", [low, high] = errors ? cells.bounds : [-cells.span, cells.span];
    const stops = PALETTE.scales[errors ? "magma" : "puor"].join(", "), same = errors && !high;
    const pooled = cells.where && layer !== "image" ? "each cell shows its element with the largest error" : "";
    /** @type {(color: string, words: string) => HTMLElement} */
    const key = (color, words) => h("span", { class: "wb-key" }, h("i", { style: `background:${color}` }), words);
    const { value, reference } = data.counts, names = ["NaN", "∞", "−∞"], colors = [PALETTE.nan, PALETTE.infinite, PALETTE.infinite];
    const lost = names.flatMap((name, k) => (value[k] || reference[k] ? [key(colors[k], `${name}: ${value[k].toLocaleString("en")}, expected ${reference[k].toLocaleString("en")}`)] : []));
    if (errors && cells.error.some((e, k) => e === Infinity && Number.isFinite(cells.value[k]))) lost.push(key(PALETTE.lost, "finite, where the reference is not"));
    this.legend.replaceChildren(
      ...(layer === "image" ? [h("span", {}, "value | reference | |error| (log)")] : []),
      same ? h("span", {}, "all equal") : h("span", { class: "wb-scale" }, number(low), " ", h("span", { class: "wb-ramp", style: `background: linear-gradient(90deg, ${stops})` }), ` ${number(high)}${errors ? " (log)" : ""}`),
      ...lost, pooled);
  }

  /** Tell the values of a cell. @param {number} k */
  read(k) {
    const { cells, detail } = this;
    if (!cells || !detail) return;
    const index = this.indexOf(k), own = k === this.chosen && detail.at === this.at.join(), exact = own ? this.middle() : null;
    this.reading.textContent = `[${(own ? this.at : index).join(", ")}]: ${exact ?? cells.words(k)}`;
  }

  /** The chosen element of the neighbourhood, exactly. */
  middle() {
    const { around, axes } = /** @type {TensorDetail} */ (this.detail), at = axes.map((k) => this.at[k]);
    const r = axes.length > 1 ? around.rows.indexOf(at[0]) : 0, c = axes.length ? around.columns.indexOf(at[at.length - 1]) : 0;
    return `value ${around.value[r][c]}, expected ${around.reference[r][c]}, error ${around.error[r][c]}`;
  }

  /** The element with those around it. */
  neighbours() {
    const { detail, cells } = this;
    if (!detail || !cells || detail.at !== this.at.join()) return this.near.replaceChildren();
    const { rows, columns, value, reference, error } = detail.around, at = detail.axes.map((k) => this.at[k]), r = at.length > 1 ? at[0] : 0, c = at.at(-1) ?? 0;
    /** @type {(i: number, j: number) => HTMLElement} */
    const cell = (i, j) => {
      const e = error[i][j] === "∞" ? Infinity : Number(error[i][j]), color = e === Infinity ? mark(value[i][j] === "NaN" ? NaN : /∞/.test(value[i][j]) ? Infinity : 0) : sample("magma", logShare(e, cells.bounds));
      const style = e ? `background:${color};color:${inkOn(color)}` : undefined;
      return h("td", { style, class: rows[i] === r && columns[j] === c ? "wb-here" : undefined, title: `error ${error[i][j]}` }, value[i][j], h("small", {}, reference[i][j]));
    };
    this.near.replaceChildren(h("table", { "aria-label": `Around [${this.at.join(", ")}]: value, and below it the reference` },
      h("thead", {}, h("tr", {}, h("td", {}), columns.map((n) => h("th", { scope: "col" }, n)))),
      h("tbody", {}, rows.map((n, i) => h("tr", {}, h("th", { scope: "row" }, n), columns.map((_, j) => cell(i, j)))))));
  }

  /** Make the charts: those of no axis, and that of the chosen one. */
  chart() {
    this.charts = (this.data?.charts ?? []).filter((c) => c.axis === undefined || c.axis === this.channel).map(chartElement);
    this.rows.replaceChildren(...this.charts.map((c) => c.el));
    this.draw();
  }
}

export { TensorPanel };
