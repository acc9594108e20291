// The columns of the table of kernels, its filter and order, and a kernel's description.

import { bytes, count, duration, known, number, percent, wordsOf } from "./format.js";

/** @typedef {{ key: string, heading: string, title: string, text: (kernel: Kernel) => string | number, by: (kernel: Kernel) => string | number | null }} Column */
/** @typedef {{ key: string, way: 1 | -1 }} Order */

/** @type {Column[]} */
const COLUMNS = [
  { key: "index", heading: "#", title: "Place in the run", text: (r) => r.index + 1, by: (r) => r.index },
  { key: "what", heading: "kernel", title: "Instruction, and what it computes", text: (r) => r.what, by: (r) => r.what },
  { key: "ms", heading: "ms", title: "Median time", text: (r) => (known(r.ms) ? number(r.ms) : ""), by: (r) => r.ms },
  { key: "share", heading: "share", title: "Part of the device's time", text: (r) => percent(r.share), by: (r) => r.share },
  { key: "bytes", heading: "bytes", title: "Bytes that enter and leave the kernel", text: (r) => bytes(r.bytes), by: (r) => r.bytes },
  { key: "registers", heading: "regs", title: "Registers of a work item", text: (r) => r.registers ?? "", by: (r) => r.registers },
  { key: "items", heading: "grid × block", title: "Blocks, and work items of a block", text: (r) => `${r.grid} × ${r.block}`, by: (r) => r.items },
];

/** The columns with any known value. @param {Kernel[]} rows */
const columnsOf = (rows) => COLUMNS.filter(({ key, by }) => key === "index" || rows.some((r) => known(by(r))));

/**
 * The order after a click on a column's head: reversed, or the default order of another column.
 * @param {Order} order
 * @param {string} key
 * @returns {Order}
 */
function ordered(order, key) {
  if (order.key === key) return { key, way: order.way === 1 ? -1 : 1 };
  return { key, way: key === "index" || key === "what" ? 1 : -1 };
}

/**
 * The rows that contain all words, sorted; unknown values sort as the smallest.
 * @param {Kernel[]} rows
 * @param {string} words
 * @param {Order} order
 */
function visibleRows(rows, words, { key, way }) {
  const wanted = wordsOf(words), column = COLUMNS.find((c) => c.key === key) ?? COLUMNS[0];
  /** @type {(r: Kernel) => string} */
  const text = (r) => `${r.instruction} ${r.what} ${r.name} ${r.sources.join(" ")}`.toLowerCase();
  /** @type {(r: Kernel) => string | number} */
  const value = (r) => column.by(r) ?? -Infinity;
  return rows.filter((r) => wanted.every((w) => text(r).includes(w)))
    .toSorted((a, b) => way * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) || a.index - b.index);
}

/**
 * The known facts of a kernel's run and code, in words.
 * @param {Kernel} r
 */
function factsOf(r) {
  const spilled = r.spills ? `${count(r.spills, "register")} spilled` : r.local ? `${bytes(r.local)} local per work item` : "";
  const full = known(r.occupancy) ? ` (${percent(r.occupancy)} of its work items)` : "";
  return [
    known(r.ms) ? `${duration(r.ms)}, ${percent(r.share)} of the device's time` : "", `${r.grid} blocks × ${r.block} work items`,
    known(r.registers) ? count(r.registers, "register") : "", r.shared ? `${bytes(r.shared)} shared` : "", spilled,
    known(r.blocks) ? `${count(r.blocks, "block")} per unit${full}` : "", `${bytes(r.bytes)} moved`, r.flops ? `${number(r.flops / 1e6)} MFLOP` : "",
    `${bytes(r.code)} of code`,
  ].filter(Boolean);
}

export { columnsOf, factsOf, ordered, visibleRows };
