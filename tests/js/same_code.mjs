// Whether compact code is the same but for the names of variables. Reads pairs of scripts by file, as JSON.

import { text } from "node:stream/consumers";

import { analyze } from "eslint-scope";
import { parse } from "acorn";

const OPTIONS = { ecmaVersion: 2022, sourceType: "module" };
const PLACES = ["start", "end", "range", "raw", "shorthand"];

/** `const a = 1, b = 2` as two statements. */
const apart = (node) => (node?.type === "VariableDeclaration" ? node.declarations.map((one) => ({ ...node, declarations: [one] })) : [node]);

/** `undefined`, `true`, `false` and `Infinity` however they are written. */
const plain = ({ type, name, value, operator, argument, left, right }) => {
  if (type === "Identifier" && name === "undefined") return "void 0";
  if (type === "Identifier" && name === "Infinity") return "1/0";
  if (operator === "-" && argument?.name === "Infinity") return "-1/0";
  if (operator === "/" && right.value === 0) return left.value === 1 ? "1/0" : left.operator === "-" && left.argument?.value === 1 ? "-1/0" : undefined;
  if (type === "Literal" && typeof value === "boolean") return `!${1 - value}`;
  return type === "UnaryExpression" && argument.type === "Literal" && /^(void|!)$/.test(operator) && typeof argument.value === "number" ? `${operator} ${argument.value}`.replace("! ", "!") : undefined;
};

/** The syntax tree as JSON, with a number for each variable, and the names that are not declared. */
function meaning(script) {
  const tree = parse(script, { ...OPTIONS, ranges: true }), { scopes } = analyze(tree, OPTIONS), number = new Map();
  for (const v of scopes.flatMap((scope) => scope.variables.filter((one) => one.defs.length))) {
    const n = `variable ${number.size}`;
    for (const node of [...v.identifiers, ...v.references.map((r) => r.identifier)]) number.set(node, n);
  }
  const seen = (node) => {
    if (node === null || typeof node !== "object" || node instanceof RegExp) return String(node);
    if (Array.isArray(node)) return node.flatMap(apart).map(seen);
    if (plain(node)) return plain(node);
    const isNamed = (key) => node[key].type === "Identifier" && ((key === "key" && !node.computed) || key === "exported" || key === "imported");
    const parts = Object.keys(node).filter((key) => !PLACES.includes(key)).map((key) => [key, node[key] && isNamed(key) ? node[key].name : seen(node[key])]);
    return { ...Object.fromEntries(parts), ...(node.kind === "const" ? { kind: "let" } : {}), ...(number.has(node) ? { name: number.get(node) } : {}) };
  };
  return JSON.stringify([seen(tree), [...new Set(scopes[0].through.map((r) => r.identifier.name))].filter((name) => !/^(undefined|Infinity)$/.test(name)).toSorted()]);
}

const pairs = Object.entries(JSON.parse(await text(process.stdin)));
const other = pairs.filter(([, [script, compact]]) => meaning(script) !== meaning(compact)).map(([name]) => name);
if (other.length || !pairs.length) throw new Error(`workbench/widgets/compact.py changes ${other.join(", ")}`);
