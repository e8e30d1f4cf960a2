// Looks at pages of the documentation site with axe-core, light, dark and in a narrow window:
// node site.mjs CHROMIUM FOLDER PAGE... Prints one line of JSON: how many looks, violations, what is too wide.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, folder, ...pages] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root
const found = { looks: 0, violations: [], wide: [] };

for (const [colorScheme, width] of [["light", 1280], ["dark", 1280], ["light", 320]]) {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
  for (const name of pages) {
    await page.goto(`file://${resolve(folder, name)}`);
    await page.evaluate(axe);
    const { violations } = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
    const where = `${name}, ${colorScheme}, ${width}`;
    for (const { id, nodes } of violations) {
      found.violations.push(`${where}: ${id}: ${nodes.slice(0, 3).map((node) => node.target).join(" ")}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    if (wide) found.wide.push(where);
    found.looks += 1;
  }
  await page.close();
}
console.log(JSON.stringify(found));
await browser.close();
