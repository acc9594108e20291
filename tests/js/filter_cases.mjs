// Filters the scenes that stand on the standard input, one JSON value, and prints what is shown and where it is.

import { text } from "node:stream/consumers";

import { decode } from "../../workbench/widgets/static/dom.js";
import { Layout, edgesOf } from "../../workbench/widgets/static/layout.js";
import { Live, Scene } from "../../workbench/widgets/static/scene.js";
import { hopsAround, limited, pathBetween, slotsShown, throughHidden } from "../../workbench/widgets/static/filter.js";

const found = await Promise.all(JSON.parse(await text(process.stdin)).map(async ({ data: deflated, ids, n, only, hidden, open }) => {
  const data = await decode(deflated), scene = new Scene(data), live = new Live(scene, data.steps[0]), slots = slotsShown(scene, only, hidden);
  const layout = new Layout(scene, new Set(open), slots), edges = edgesOf(layout, limited(live, slots));
  return {
    hops: ["in", "out", "both"].map((way) => hopsAround(live, ids, n, way)), path: pathBetween(live, ids[0], ids.at(-1)), slots: slots && [...slots],
    through: slots && [...throughHidden(live, slots)], boxes: [...layout.boxes].map(([i, b]) => [i, b.x, b.y, b.w, b.h]), size: [layout.width, layout.height],
    edges: edges.map((e) => [e.source, e.user, e.start, e.end, e.dashed]),
  };
}));
console.log(JSON.stringify(found));
