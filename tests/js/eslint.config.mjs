// Rules for the JavaScript of the views and its tests; types are the type checker's affair.

import js from "@eslint/js";

const MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "write"];

export default [
  js.configs.recommended,
  {
    rules: {
      "no-undef": "off", // the type checker knows names, those of browsers and of types.d.ts too
      "array-callback-return": "error",
      "eqeqeq": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-properties": ["error", ...MARKUP.map((property) => ({ property, message: "Text is set as text." }))],
      "no-self-compare": "error",
      "no-shadow": "error",
      "no-template-curly-in-string": "error",
      "no-unmodified-loop-condition": "error",
      "no-unused-expressions": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, classes: false }],
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
];
