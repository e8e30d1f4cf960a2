// Uses the page in Chromium by the keyboard alone: node keys.mjs CHROMIUM URL. Prints one line of JSON: what the
// tabulator key reaches, what it does not, what shows no focus; the answer that was asked for in German by the
// second example; how many animations ran while it waited, for who wants less motion and for who does not.
import { chromium } from "playwright-core";

const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }); // tests may run as root
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(url);
await page.locator("#go:enabled").waitFor({ timeout: 60_000 });

const NAME = `((e) => e.id || e.value || e.textContent)(document.activeElement)`;
const name = () => page.evaluate(NAME);

/** Presses a key until the element with this name has the focus. */
async function go(to, key = "Tab") {
  for (let presses = 0; presses < 40; presses++) {
    if ((await name()) === to) return;
    await page.keyboard.press(key);
  }
  throw new Error(`the keyboard does not reach ${to}`);
}

const reached = [];
const unmarked = [];
for (let presses = 0; presses < 40; presses++) {
  await page.keyboard.press("Tab");
  const here = await name();
  if (reached.includes(here) || (await page.evaluate("document.activeElement === document.body"))) break;
  reached.push(here);
  const marked = `getComputedStyle(document.activeElement).outlineStyle !== "none"`;
  if (!(await page.evaluate(marked))) unmarked.push(here);
}
const missed = await page.evaluate((reached) => {
  const all = [...document.querySelectorAll("button, input, select, textarea, a[href]")];
  const seen = all.filter((e) => e.checkVisibility() && !e.disabled && (e.type !== "radio" || e.checked));
  return seen.map((e) => e.id || e.value || e.textContent).filter((each) => !reached.includes(each));
}, reached);

const moving = () => page.evaluate(`document.getAnimations().filter((a) => a.effect.target.matches("i")).length`);

/** Asks by the second example, and counts what moves meanwhile. */
async function asked() {
  await go("a waste of time, truly bad");
  await page.keyboard.press("Enter");
  await go("go");
  while (await moving()); // what is left of the text before
  const done = page.locator("#ask[aria-busy=false] ~ #result:visible");
  await page.keyboard.press("Enter");
  let most = 0;
  while (!(await done.count())) most = Math.max(most, await moving());
  return most;
}

await go("Deutsch");
await page.keyboard.press("Enter");
const motion = { full: await asked() };
const { lang } = await page.evaluate("({ lang: document.documentElement.lang })");
const shown = (id) => page.locator(`#${id}`).textContent();
const answer = { lang, label: await shown("label"), status: await shown("status") };
answer.focus = await name();
await page.emulateMedia({ reducedMotion: "reduce" });
motion.reduced = await asked();
console.log(JSON.stringify({ reached, missed, unmarked, answer, motion }));
await browser.close();
