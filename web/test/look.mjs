// Looks at the page in Chromium, at four sizes, light and dark, before a text is asked about and behind its
// answer: node look.mjs CHROMIUM URL [FOLDER]. Prints one line of JSON: violations that axe-core finds, and
// where something is wider than the window. FOLDER gets page-WIDTH-SCHEME.webp, with the answer.
// LANGUAGES=en,de,zh says which;
// all but the first are looked at in the narrowest window alone.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, url, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = [[320, 640], [375, 812], [768, 1024], [1440, 900]];
const languages = (process.env.LANGUAGES ?? "en").split(",");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root
const found = { looks: 0, violations: [], wide: [] };

/** Keeps the whole page as a picture of few bytes. */
async function keep(page, file) {
  const session = await page.context().newCDPSession(page);
  const wanted = { format: "webp", quality: 70, captureBeyondViewport: true };
  const { data } = await session.send("Page.captureScreenshot", wanted);
  writeFileSync(file, Buffer.from(data, "base64"));
}

async function look(page, name) {
  found.looks += 1;
  const { violations } = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
  const said = violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map((n) => n.target).join(" ")}`);
  found.violations.push(...said);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (wide) found.wide.push(name);
}

for (const colorScheme of ["light", "dark"]) {
  for (const language of colorScheme === "light" ? languages : languages.slice(0, 1)) {
    const page = await browser.newPage({ colorScheme });
    await page.goto(`${url}?lang=${language}`);
    await page.evaluate(axe);
    await page.locator("#go:enabled").waitFor({ timeout: 60_000 });
    for (const stage of ["asks", "answered"]) {
      for (const [width, height] of language === languages[0] ? SIZES : SIZES.slice(0, 1)) {
        await page.setViewportSize({ width, height });
        await look(page, `${stage}-${width}-${colorScheme}-${language}`);
        const kept = folder && stage === "answered" && language === languages[0];
        if (kept) await keep(page, join(folder, `page-${width}-${colorScheme}.webp`));
      }
      if (stage === "answered") break;
      await page.locator("#go").click();
      await page.locator("#result:visible, #status[data-kind=problem]").waitFor({ timeout: 240_000 });
      await page.locator("#ask[aria-busy=false]").waitFor({ timeout: 240_000 });
    }
    await page.goto("about:blank"); // leaving drops the keys
    await page.close();
  }
}
console.log(JSON.stringify(found));
await browser.close();
