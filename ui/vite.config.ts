import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// `METACLAW_UI_API` points `npm run dev` at a running service (`metaclaw start --ui-port PORT`).
const service = process.env["METACLAW_UI_API"];

export default defineConfig({
  plugins: [svelte()],
  base: "./",
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  server: {
    port: 5183,
    strictPort: true,
    ...(service ? { proxy: { "/api": { target: service, changeOrigin: true, headers: { origin: service } } } } : {}),
  },
  build: {
    target: "es2022",
    // No inline script or data: module survives a strict content policy.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  test: {
    environment: "jsdom",
    include: ["tests/**/*.test.ts"],
    setupFiles: ["tests/setup.ts"],
    testTimeout: 40_000,
  },
});
