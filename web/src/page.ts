/** The page: a form, an answer, and what the server saw of it. */
import { models, offerOf, program } from "./service.js";
import type { Model } from "./service.js";
import { open } from "./session.js";
import type { Session } from "./session.js";
import type { Answered, Told } from "./told.js";
import { bytes, percent, seconds, step } from "./words.js";

function element<E extends HTMLElement>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

const form = element("ask", HTMLFormElement);
const text = element("text", HTMLTextAreaElement);
const token = element("token", HTMLInputElement);
const access = element("access", HTMLElement);
const model = element("model", HTMLSelectElement);
const button = element("go", HTMLButtonElement);
const stopper = element("stop", HTMLButtonElement);
const status = element("status", HTMLElement);
const progress = element("progress", HTMLProgressElement);
const result = element("result", HTMLElement);

let session: Session | undefined;
let pending = "";
let began = 0;
let before = { sent: 0, received: 0, rounds: 0 };

function say(words: string, kind: "" | "problem" = ""): void {
  status.textContent = words;
  status.dataset["kind"] = kind;
}

function busy(yes: boolean): void {
  button.disabled = yes;
  stopper.hidden = !yes;
  progress.hidden = !yes;
  form.setAttribute("aria-busy", String(yes));
}

function over(words: string, again: boolean): void {
  if (!again) {
    session?.stop();
    session = undefined;
  }
  busy(false);
  say(words, "problem");
}

function told(event: Told): void {
  switch (event.kind) {
    case "loaded":
      progress.max = event.total;
      progress.value = event.done;
      say(`loading the public part of the model: ${bytes(event.done)} of ${bytes(event.total)}`);
      break;
    case "ready":
      progress.removeAttribute("value");
      session?.ask(pending);
      break;
    case "node":
      progress.removeAttribute("value");
      say(step(event.name));
      break;
    case "answer":
      busy(false);
      show(event);
      break;
    case "failed":
      over(event.message, event.again);
      break;
    case "closed":
      if (!button.disabled) leave(); // between two texts: the next one connects again
  }
}

function cell(kind: "th" | "td", words: string): HTMLTableCellElement {
  const made = document.createElement(kind);
  made.textContent = words;
  if (kind === "th") made.scope = "row";
  return made;
}

function row(...words: [string, ...string[]]): HTMLTableRowElement {
  const made = document.createElement("tr");
  const [first, ...others] = words;
  made.append(cell("th", first), ...others.map((each) => cell("td", each)));
  return made;
}

function show({ answer, sent, received, rounds }: Answered): void {
  const label = answer.label ?? answer.logits.map(String).join(", ");
  const cost = { sent: sent - before.sent, received: received - before.received, rounds: rounds - before.rounds };
  before = { sent, received, rounds };
  element("label", HTMLElement).textContent = label;
  element("scores", HTMLTableSectionElement).replaceChildren(
    ...answer.scores.map((score) => row(score.label, percent(score.score))),
  );
  element("warnings", HTMLElement).textContent = answer.warnings.join(" ");
  element("cost", HTMLTableSectionElement).replaceChildren(
    row("Time", seconds(performance.now() - began)),
    row("Sent", bytes(cost.sent)),
    row("Received", bytes(cost.received)),
    row("Messages waited for", String(cost.rounds)),
  );
  element("saw", HTMLElement).textContent =
    `your address, the time, that you asked ${model.value} about one text, and ${bytes(cost.sent)} of ` +
    "ciphertexts and numbers that look random to it";
  result.hidden = false;
  say(`Answer: ${label}`);
}

async function ask(): Promise<void> {
  busy(true);
  result.hidden = true;
  began = performance.now();
  pending = text.value;
  if (session) {
    session.ask(pending);
    return;
  }
  say("connecting");
  before = { sent: 0, received: 0, rounds: 0 };
  session = open(model.value, token.value.trim(), await program(model.value, token.value.trim()), told);
}

function described(found: Model): HTMLOptionElement {
  const offer = offerOf(found);
  const room = offer ? `, up to ${offer.tokens} tokens` : "";
  return new Option(`${found.name} (${found.labels.join(", ") || found.task}${room})`, found.name);
}

async function list(): Promise<void> {
  try {
    const found = await models(token.value.trim());
    model.replaceChildren(...found.map(described));
    button.disabled = found.length === 0;
    say(found.length ? "" : "this server has no model that a page can ask", found.length ? "" : "problem");
  } catch (error) {
    access.hidden = false;
    over(error instanceof Error ? error.message : "the server does not answer", false);
    button.disabled = true;
  }
}

function leave(): void {
  session?.end();
  session = undefined;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask().catch((error: unknown) => over(error instanceof Error ? error.message : String(error), false));
});
stopper.addEventListener("click", () => over("stopped", false));
model.addEventListener("change", leave);
token.addEventListener("change", () => {
  leave();
  void list();
});
window.addEventListener("pagehide", leave);
if (crossOriginIsolated) void list();
else over("this page needs to be served with the headers COOP and COEP, over HTTPS or from this machine", false);
