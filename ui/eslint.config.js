import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "node_modules", "src/api/schema.d.ts"] },
  ...ts.configs.strict,
  ...svelte.configs["flat/recommended"],
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: [".svelte"] } },
  },
  {
    rules: {
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // The router is the address fragment; there is no framework router to resolve with.
      "svelte/no-navigation-without-resolve": "off",
      "svelte/no-at-html-tags": "off",
      // Plain dates and sets here are values within one computation, not state.
      "svelte/prefer-svelte-reactivity": "off",
      eqeqeq: ["error", "always", { null: "ignore" }],
      // A space between two expressions has to be written as one.
      "svelte/no-useless-mustaches": "off",
    },
  },
);
