// The query language without a page: trees, hits in the small scene, and what is wrong.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ORDER, columns } from "./scenes.mjs";
import { Live, NOTHING, Scene } from "../../workbench/widgets/static/scene.js";
import { QueryError, parseQuery } from "../../workbench/widgets/static/query.js";
import { limited, slotsShown } from "../../workbench/widgets/static/filter.js";
import { readOverlay } from "../../workbench/widgets/static/overlay.js";

globalThis.PALETTE = { families: { a: "", b: "", c: "", d: "", e: "", f: "", g: "" } };

const scene = new Scene(columns()), live = new Live(scene, ORDER);
const overlay = readOverlay({ name: "time spent", unit: "ms", scale: "viridis", values: { 1: 0.5, 2: 2, 3: null } });
const find = (query) => live.find(query, { ...NOTHING, overlay, marks: new Map([[2, "added"]]) });

test("or binds less than what stands side by side", () => {
  const { kind, terms } = parseQuery("a b or -c | (d or e)");
  assert.deepEqual([kind, terms.map((t) => t.kind)], ["or", ["and", "not", "or"]]);
  assert.equal(parseQuery("  "), null);
});

test("words, fields and numbers find in the program's order", () => {
  const hits = { "two or in": [1, 3, 5], "-op:op": [1], "attr:axis=1 -two": [5, 2, 4, 9], "name:x": [1], "#9": [9], "@2": [2], "mark:added": [2], "family:b": [5, 2], "scope:a": [2, 3] };
  for (const [query, ids] of Object.entries(hits)) assert.deepEqual(find(query).toSorted((a, b) => a - b), ids.toSorted((a, b) => a - b), query);
});

test("what is not finite is over every bound", () => {
  assert.deepEqual([find("ms>1"), find("spent<=1"), find("value>=inf"), find("ms:0.5..2")], [[2, 3], [1], [3], [1, 2]]);
});

test("a wrong query says where", () => {
  const wrong = { "in (two": 7, "ms>": 3, "in error>1": 3, "shape:2xx": 0, "in -": 4, "rule:x": 0, '"in': 3, "in or": 5 };
  for (const [query, at] of Object.entries(wrong)) assert.throws(() => find(query), (error) => error instanceof QueryError && error.at === at, query);
});

test("names of any kind are text to look for, not to run", () => {
  for (const query of ['"(a+)+$"', "/\\//", '"<img onerror=x>"', "[", "\\", "*", "a".repeat(1e5)]) assert.ok(Array.isArray(find(query)));
});

test("a side that is limited twice is the same side", () => {
  const slots = slotsShown(scene, [2], []), part = limited(live, slots);
  assert.deepEqual([[...slots], [...part.bySlot.keys()], limited(part, slots) === part, limited(part, null) === live], [[1], [1], true, true]);
  assert.equal(part.node(3).title, "two");
});
