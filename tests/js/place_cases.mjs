// Places the containers that stand on the standard input, one JSON value, and prints where everything is.

import { text } from "node:stream/consumers";

import { placeContainer } from "../../workbench/widgets/static/place.js";

const plans = JSON.parse(await text(process.stdin)).map(({ container, sizes, lane }) => {
  const { x, y, bands, spine, width, height } = placeContainer(container, sizes, lane);
  return { x: [...x].toSorted((a, b) => a[0] - b[0]), y: [...y].toSorted((a, b) => a[0] - b[0]), bands, spine, width, height };
});
console.log(JSON.stringify(plans));
