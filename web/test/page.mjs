// Drives the page in Chromium: node page.mjs CHROMIUM URL TEXT... Prints one line of JSON: what was shown for
// each text, and what the browser complained about. SCREENSHOT=FILE.png keeps what it looked like at the end.
// MODEL chooses a model. WAY=SCHEME asks by that scheme, and tells the price that was shown before;
// BREAK=NUMBER breaks so many uploads of keys off. SECOND fills the second field. WRITE=TOKENS has so many
// written behind each text, STOP=1 stops each behind its first. LOSE=NUMBER has the server lose the rows that
// it keeps before the request of that number, FULL=1 has it keep another text before. LATER fills the second
// field once more, and LEAVE=1 leaves the model of the first text, while a text is under way.
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
let rows = Number(process.env.LOSE ?? 0);
if (rows > 0) {
  await page.route(/\/v1\/requests\?/, async (route) => {
    rows -= 1;
    const { origin, searchParams } = new URL(route.request().url());
    const path = `${origin}/v1/texts/${searchParams.get("text")}?key=${searchParams.get("key")}`;
    const { authorization } = route.request().headers();
    if (rows === 0) await fetch(path, { method: "DELETE", headers: { authorization } });
    await route.continue();
  });
}
if (process.env.FULL) {
  await page.route(/\/v1\/texts\?/, async (route) => {
    const headers = { ...route.request().headers(), "idempotency-key": "another" };
    if (route.request().method() === "POST") await route.fetch({ headers });
    await route.continue();
  });
}
await page.goto(url);

const contents = (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent));
const cells = (id) => page.locator(`#${id} tr`).evaluateAll(contents);

async function asked(text) {
  const writes = Number(process.env.WRITE ?? 0);
  await page.getByRole("textbox", { name: /^(Text|Text with a mask|Prompt|Question)$/ }).fill(text);
  if (process.env.SECOND) {
    if (!(await page.locator("#lines").isVisible())) await page.locator("#kind-of-lines").click();
    await page.locator("#lines").fill(process.env.SECOND);
  }
  if (writes) await page.getByLabel("Tokens at most").fill(String(writes));
  heat = await page.locator("#temperature").isVisible();
  await page.getByRole("button", { name: /^(Classify|Search|Tag|Answer|Fill|Write)$/ }).click();
  if (process.env.STOP) {
    await page.locator("#label", { hasText: "1 token" }).waitFor({ timeout: 120_000 });
    await page.getByRole("button", { name: "Stop" }).click();
  }
  if (process.env.LATER) await page.locator("#lines").fill(process.env.LATER);
  if (process.env.LEAVE && text === texts[0]) await page.locator("#model").dispatchEvent("change");
  const over = page.locator("#ask[aria-busy=false]");
  await over.waitFor({ timeout: Number(process.env.PATIENCE ?? 240_000) });
  const shown = await page.locator("#result").isVisible();
  const status = await page.getByRole("status").textContent();
  if (!shown) return { status };
  const label = await page.locator("#label").textContent();
  const saw = await page.locator("#saw").textContent();
  const written = await page.locator("#written").textContent();
  const ties = await page.locator("#ties").textContent();
  const [out, back] = [await page.locator("#out").textContent(), await page.locator("#in").textContent()];
  const marks = await page.locator("mark").allTextContents();
  const told = { status, label, saw, written, ties, marks, out, in: back };
  return { ...told, scores: await cells("scores"), cost: await cells("cost") };
}

const answers = [];
let price = null;
let heat = null; // whether a temperature can be chosen
try {
  await page.locator("#model option").first().waitFor({ state: "attached", timeout: 30_000 });
  if (process.env.MODEL) await page.locator("#model").selectOption(process.env.MODEL);
  if (process.env.WRITE) price = await page.locator("#price").textContent();
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
if (process.env.WAY && answers.some(({ label }) => label)) {
  // leaving drops the keys; a browser that closes at once may not send that
  const drops = (request) => request.method() === "DELETE" && request.url().includes("/v1/keys/");
  const dropped = (response) => drops(response.request());
  const gone = page.waitForResponse(dropped, { timeout: 60_000 });
  await page.evaluate(`dispatchEvent(new Event("pagehide"))`);
  await gone;
}
console.log(JSON.stringify({ answers, price, heat, complaints, unnamed }));
await browser.close();
