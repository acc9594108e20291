// Finds in the scenes that stand on the standard input, one JSON value, and prints the hits or what is wrong.

import { text } from "node:stream/consumers";

import { decode } from "../../workbench/widgets/static/dom.js";
import { Live, Scene } from "../../workbench/widgets/static/scene.js";
import { QueryError } from "../../workbench/widgets/static/query.js";
import { readOverlay } from "../../workbench/widgets/static/overlay.js";

const { palette, queries, scenes } = JSON.parse(await text(process.stdin));
globalThis.PALETTE = palette;
const mapped = (object) => (object ? new Map(Object.entries(object).map(([id, words]) => [+id, words])) : null);

const found = await Promise.all(scenes.map(async ({ data: deflated, overlay, marks, rules, passes, kernels }) => {
  const data = await decode(deflated), live = new Live(new Scene(data), data.steps[0]);
  const known = { overlay: readOverlay(overlay), marks: mapped(marks), rules: mapped(rules), passes: mapped(passes), kernels: mapped(kernels) };
  return queries.map((query) => {
    try {
      return live.find(query, known);
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      return [error.at, error.message];
    }
  });
}));
console.log(JSON.stringify(found));
