// What the page costs its browser: node measure.mjs CHROMIUM URL SCHEME TEXT... (Linux). Prints one line of
// JSON: when each step began and ended, in seconds; the largest resident memory of each renderer process, in
// MB. Drives Chromium by its protocol without listening to the network, since a driver that listens has the
// browser keep a copy of everything that is sent. SCREENSHOT=FILE.png keeps what it looked like at the end.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [chromium, url, scheme, ...texts] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "tacita-page-"));
const driven = ["--headless", "--window-size=900,1300", "--no-sandbox", "--remote-debugging-pipe"];
const options = [...driven, `--user-data-dir=${folder}`];
const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
const browser = spawn(chromium, [...options, "about:blank"], { stdio });
const waiting = new Map();
let heard = "";
browser.stdio[4].setEncoding("utf8").on("data", (text) => {
  const messages = (heard + text).split("\0");
  heard = messages.pop();
  for (const { id, result } of messages.map((each) => JSON.parse(each))) waiting.get(id)?.(result);
});

function command(method, params = {}, sessionId = undefined) {
  const id = waiting.size + 1;
  const reply = new Promise((resolve) => waiting.set(id, resolve));
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return reply;
}

/** Functions that run an expression in the page, and that keep what it looks like. */
async function opened() {
  const { targetId } = await command("Target.createTarget", { url });
  const { sessionId } = await command("Target.attachToTarget", { targetId, flatten: true });
  const run = async (expression) => {
    const params = { expression, awaitPromise: true, returnByValue: true };
    return (await command("Runtime.evaluate", params, sessionId))?.result?.value;
  };
  const keep = async (file) => {
    const { data } = await command("Page.captureScreenshot", { captureBeyondViewport: true }, sessionId);
    writeFileSync(file, Buffer.from(data, "base64"));
  };
  return { run, keep };
}

const WATCH = `(async () => {
  while (!document.querySelector("#model option[value]")) await new Promise((r) => setTimeout(r, 100));
  const status = document.getElementById("step");
  window.steps = [];
  new MutationObserver(() => {
    const [now, words] = [performance.now() / 1000, status.textContent.replace(/[:,].*/, "")];
    const last = steps.at(-1);
    if (last && last[2] === words) last[1] = now;
    else steps.push([now, now, words]);
  }).observe(status, { childList: true });
  const way = document.querySelector("input[name=way][value=${scheme}]");
  if (way) way.click();
  return true;
})()`;
const ask = (text) => `(async () => {
  document.getElementById("text").value = ${JSON.stringify(text)};
  document.getElementById("go").click();
  const form = document.getElementById("ask");
  do await new Promise((r) => setTimeout(r, 100)); while (form.getAttribute("aria-busy") !== "false");
  return document.getElementById("status").textContent;
})()`;

/** By process, the largest resident memory that was seen. */
const peaks = new Map();
function look() {
  const read = (id, file) => {
    try {
      return readFileSync(`/proc/${id}/${file}`, "utf8");
    } catch {
      return ""; // it has gone
    }
  };
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const ours = ids.filter((id) => read(id, "cmdline").includes(folder) || parents(id).includes(browser.pid));
  const kinds = ours.filter((id) => read(id, "cmdline").includes("--type=renderer"));
  for (const id of kinds) {
    const said = read(id, "status").matchAll(/Vm(?:HWM|RSS):\s+(\d+)/g);
    peaks.set(id, Math.max(peaks.get(id) ?? 0, ...[...said].map((each) => each[1] * 1.024e-3)));
  }

  function parents(id) {
    const parent = Number(/PPid:\s+(\d+)/.exec(read(id, "status"))?.[1] ?? 0);
    return parent > 1 ? [parent, ...parents(parent)] : [];
  }
}

const looking = setInterval(look, 500);
try {
  const { run, keep } = await opened();
  while (!(await run(WATCH))); // what was there before the page goes away under it
  const answers = [];
  for (const text of texts) answers.push(await run(ask(text)));
  if (process.env.SCREENSHOT) await keep(process.env.SCREENSHOT);
  look();
  const renderers_mb = [...peaks.values()].map(Math.round).sort((a, b) => b - a);
  const steps = (await run("steps")).map(([from, to, words]) => [from.toFixed(1), to.toFixed(1), words]);
  console.log(JSON.stringify({ answers, renderers_mb, steps }));
} finally {
  clearInterval(looking);
  browser.kill();
  await new Promise((resolve) => browser.once("exit", resolve));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
