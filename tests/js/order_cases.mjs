// Arranges the graphs that stand on the standard input, one JSON value, and prints each container with its lanes.

import { text } from "node:stream/consumers";

import { Order } from "../../workbench/widgets/static/order.js";

const arranged = JSON.parse(await text(process.stdin)).map(({ slots, groups, edges, firm }) => {
  const ints = (list) => Int32Array.from(list);
  const order = new Order({
    slots: { parent: ints(slots.parent), position: ints(slots.position) }, edges: ints(edges), firm,
    groups: { ...groups, parent: ints(groups.parent), body: ints(groups.body) },
  });
  const containers = groups.key.map((_, g) => order.container(g + 1));
  return { containers: [order.container(0), ...containers], rank: [...order.rank], through: order.through.map((lanes) => [...lanes]) };
});
console.log(JSON.stringify(arranged));
