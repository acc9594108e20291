// A slice of a tensor as cells: decoded from what Python sends, coloured, and drawn as a heatmap.

import { rgb, sample } from "./draw.js";
import { number } from "./format.js";

/** @typedef {"error" | "value" | "reference" | "image"} Layer */

/** @param {string} text base64 */
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
/** @param {string} text */
const floats = (text) => new Float32Array(bytes(text).buffer);

/** The colours of a scale in 256 steps, as rows of red, green, blue. @param {string} scale */
const table = (scale) => Array.from({ length: 256 }, (_, k) => rgb(sample(scale, k / 255)));
/** @type {Record<string, number[][]>} */
const tables = {};
/** @param {string} scale @param {number} share */
const colored = (scale, share) => (tables[scale] ??= table(scale))[Math.round(255 * Math.min(1, Math.max(0, share)))];

/** The position of an error on a log scale. @param {number} e @param {[number, number]} bounds */
const logShare = (e, [low, high]) => (e <= 0 ? 0 : high > low ? Math.max(0, Math.log(e / low) / Math.log(high / low)) : 1);

/** @param {number} v */
const mark = (v) => (Number.isNaN(v) ? PALETTE.nan : Number.isFinite(v) ? PALETTE.lost : PALETTE.infinite);

class Cells {
  /** @param {TensorDetail} detail */
  constructor(detail) {
    const c = detail.cells;
    this.h = c.shape[0];
    this.w = c.shape[1];
    this.rows = c.lens[0];
    this.columns = c.lens[1];
    this.value = floats(c.value);
    this.reference = floats(c.reference);
    this.error = floats(c.errors);
    this.where = c.where ? new Uint32Array(bytes(c.where).buffer) : null;
    this.bounds = c.bounds;
    this.span = c.span;
    this.image = detail.image;
  }

  /** Row and column of the element of a cell. @param {number} k */
  element(k) {
    const at = this.where ? this.where[k] : k;
    return [Math.floor(at / this.columns), at % this.columns];
  }

  /** The cell of an element. @param {number} row @param {number} column */
  cell(row, column) {
    const r = Math.ceil(((row + 1) * this.h) / this.rows) - 1, c = Math.ceil(((column + 1) * this.w) / this.columns) - 1;
    return r * this.w + c;
  }

  /** The values of a cell in words. @param {number} k */
  words(k) { return `value ${number(this.value[k])}, expected ${number(this.reference[k])}, error ${number(this.error[k])}`; }

  /** @param {Layer} layer @param {number} k @returns {number[]} */
  color(layer, k) {
    const e = this.error[k];
    if (layer === "error") return e === Infinity ? rgb(mark(this.value[k])) : colored("magma", logShare(e, this.bounds));
    const v = layer === "value" ? this.value[k] : this.reference[k];
    return Number.isFinite(v) ? colored("puor", 0.5 + (this.span ? v / this.span / 2 : 0)) : rgb(mark(v));
  }

  /** A picture of one pixel a cell. @param {Layer} layer */
  picture(layer) { return painted(this.w, this.h, (k) => this.color(layer, k)); }

  /** The image, the reference's and the error as pictures. */
  pictures() {
    const [high, wide] = this.image?.shape ?? [0, 0];
    return this.image?.parts.map(bytes).map((b) => painted(wide, high, (k) => b.subarray(3 * k, 3 * k + 3))) ?? [];
  }
}

/**
 * @param {number} w
 * @param {number} h
 * @param {(k: number) => Iterable<number>} color
 */
function painted(w, h, color) {
  const canvas = new OffscreenCanvas(w, h), ctx = canvas.getContext("2d"), data = new ImageData(w, h);
  for (let k = 0; k < w * h; k++) data.data.set([...color(k), 255], 4 * k);
  ctx?.putImageData(data, 0, 0);
  return canvas;
}

/**
 * The place of a heatmap in a canvas: square cells, but a row or column is wide enough to see.
 * @param {Cells} cells
 * @param {Layer} layer
 * @param {Extent} room
 * @returns {Place}
 */
function placed({ w, h, image }, layer, room) {
  if (layer === "image" && image) [h, w] = [image.shape[0], 3 * image.shape[1] + 8];
  const k = Math.min(room.w / w, room.h / h);
  return { x: 0, y: 0, w: Math.min(room.w, Math.max(k * w, 24)), h: Math.min(room.h, Math.max(k * h, 24)) };
}

/**
 * @param {Context} ctx
 * @param {Cells} cells
 * @param {Layer} layer
 * @param {Place} place
 * @param {number} chosen the cell to ring
 */
function drawCells(ctx, cells, layer, place, chosen) {
  ctx.imageSmoothingEnabled = false;
  if (layer === "image" && cells.image) {
    const wide = (place.w * cells.image.shape[1]) / (3 * cells.image.shape[1] + 8), gap = (place.w - 3 * wide) / 2;
    cells.pictures().forEach((picture, k) => ctx.drawImage(picture, k * (wide + gap), 0, wide, place.h));
    return;
  }
  ctx.drawImage(cells.picture(layer), place.x, place.y, place.w, place.h);
  const dx = place.w / cells.w, dy = place.h / cells.h, x = (chosen % cells.w) * dx, y = Math.floor(chosen / cells.w) * dy;
  if (dx >= 22 && dy >= 12) glyphs(ctx, cells, layer, dx, dy);
  const grown = Math.max(0, (9 - Math.min(dx, dy)) / 2);
  for (const [color, width] of /** @type {[string, number][]} */ ([["#000000", 4], ["#ffffff", 2]])) {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    const left = Math.max(2, x - grown), top = Math.max(2, y - grown);
    ctx.strokeRect(left, top, Math.min(place.w - 2, x + dx + grown) - left, Math.min(place.h - 2, y + dy + grown) - top);
  }
}

/** Write on large cells what is not finite. @param {Context} ctx @param {Cells} cells @param {Layer} layer @param {number} dx @param {number} dy */
function glyphs(ctx, cells, layer, dx, dy) {
  ctx.font = "10px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.fillStyle = "#000000";
  const side = layer === "reference" ? cells.reference : cells.value;
  side.forEach((v, k) => {
    if (!Number.isFinite(v)) ctx.fillText(number(v), (k % cells.w) * dx + dx / 2, Math.floor(k / cells.w) * dy + dy / 2 + 3.5);
  });
}

export { Cells, drawCells, logShare, mark, placed };
