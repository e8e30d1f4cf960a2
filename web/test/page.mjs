// Drives the page in Chromium: node page.mjs CHROMIUM URL TEXT... Prints one line of JSON: what was shown for
// each text, and what the browser complained about. SCREENSHOT=FILE.png keeps what it looked like at the end.
// WAY=SCHEME asks by that scheme, and tells the price that was shown before; BREAK=NUMBER breaks so many
// uploads of keys off. MEASURE=1 tells when each step began, in seconds, and the most memory in MB that each of
// the browser's processes of the page had (Linux).
import { readdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [executablePath, url, ...texts] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root
const page = await browser.newPage();
const complaints = [];
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) complaints.push(message.text());
});
page.on("pageerror", (error) => complaints.push(String(error)));
let broken = Number(process.env.BREAK ?? 0);
if (broken > 0) {
  await page.route(/\/v1\/keys\/[0-9a-f]{32}\?/, async (route) => {
    if (broken === 0 || route.request().method() !== "PUT") return route.continue();
    broken -= 1;
    if (broken % 2 === 0) await route.fetch(); // it came, and its answer did not
    await route.abort();
  });
}
await page.goto(url);

const contents = (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent));
const cells = (id) => page.locator(`#${id} tr`).evaluateAll(contents);

async function asked(text) {
  await page.getByLabel("Text", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Classify" }).click();
  const over = page.locator("#ask[aria-busy=false]");
  await over.waitFor({ timeout: Number(process.env.PATIENCE ?? 240_000) });
  const shown = await page.locator("#result").isVisible();
  const status = await page.getByRole("status").textContent();
  if (!shown) return { status };
  const label = await page.locator("#label").textContent();
  const saw = await page.locator("#saw").textContent();
  return { status, label, saw, scores: await cells("scores"), cost: await cells("cost") };
}

if (process.env.MEASURE) {
  await page.evaluate(() => {
    const status = document.getElementById("status");
    window.steps = [];
    const note = () => {
      const words = status.textContent.replace(/[:,].*/, "");
      const now = performance.now();
      if (words !== window.steps.at(-1)?.[1]) window.steps.push([now, words, now]);
      else window.steps.at(-1)[2] = now;
    };
    new MutationObserver(note).observe(status, { childList: true, characterData: true, subtree: true });
  });
}

/** Of each renderer that this process started, its largest resident memory so far, in MB. */
function peaks() {
  const read = (id, file) => {
    try {
      return readFileSync(`/proc/${id}/${file}`, "utf8");
    } catch {
      return ""; // it has gone
    }
  };
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const parent = new Map(ids.map((id) => [id, /PPid:\s+(\d+)/.exec(read(id, "status"))?.[1]]));
  const ours = (id) => id !== undefined && (id === String(process.pid) || ours(parent.get(id)));
  const renderers = ids.filter((id) => ours(id) && read(id, "cmdline").includes("--type=renderer"));
  return renderers.map((id) => Math.round(/VmHWM:\s+(\d+)/.exec(read(id, "status"))?.[1] / 1000)).sort((a, b) => b - a);
}

const answers = [];
let price = null;
try {
  await page.locator("#model option").first().waitFor({ state: "attached", timeout: 30_000 });
  if (process.env.WAY) {
    const choice = page.locator(`input[name=way][value=${process.env.WAY}]`);
    if (await choice.isVisible()) await choice.check();
    price = await page.locator("#price").textContent();
  }
  for (const text of texts) answers.push(await asked(text));
} catch (error) {
  complaints.push(String(error));
}
if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT, fullPage: true });
const unnamed = await page.evaluate(() =>
  [...document.querySelectorAll("input, select, textarea, progress")].filter(
    (e) => !e.labels?.length && !e.ariaLabel,
  ).map((e) => e.id),
);
const steps = process.env.MEASURE && (await page.evaluate(() => window.steps));
const measured = steps
  ? { renderers_mb: peaks(), steps: steps.map(([from, words, to]) => [Math.round(from) / 1e3, Math.round(to) / 1e3, words]) }
  : {};
console.log(JSON.stringify({ answers, price, complaints, unnamed, ...measured }));
await browser.close();
