/** The page: a form, an answer, and what the server saw of it. */
import { openFiles } from "./files/session.js";
import { element, show, showWritten } from "./result.js";
import type { Cost } from "./result.js";
import { models, offersOf, writes } from "./service.js";
import type { Model, Models, Offer } from "./service.js";
import { open } from "./session.js";
import type { Session } from "./session.js";
import type { Answered, Evaluated, Told, Wish, Written } from "./told.js";
import { price, radios } from "./ways.js";
import { about, bytes, step } from "./words.js";

const form = element("ask", HTMLFormElement);
const text = element("text", HTMLTextAreaElement);
const token = element("token", HTMLInputElement);
const locked = element("access", HTMLElement);
const model = element("model", HTMLSelectElement);
const ways = element("ways", HTMLFieldSetElement);
const wishes = element("wishes", HTMLFieldSetElement);
const most = element("most", HTMLInputElement);
const temperature = element("temperature", HTMLInputElement);
const button = element("go", HTMLButtonElement);
const stopper = element("stop", HTMLButtonElement);
const status = element("status", HTMLElement);
const progress = element("progress", HTMLProgressElement);
const result = element("result", HTMLElement);
const NOTHING: Cost = { sent: 0, received: 0, rounds: 0 };
const insecure = new URLSearchParams(location.search).has("allow-insecure");

let offered: Models = { signer: "", models: [] };
let session: Session | undefined;
let held = false; // whether this page's keys are at the server
let pending = "";
let began = 0;
let before = NOTHING;
let written_text = "";
let tokens = 0; // of the text that is written
let stopping = false; // whether no further one is wanted

function say(words: string, kind: "" | "problem" = ""): void {
  status.textContent = words;
  status.dataset["kind"] = kind;
}

function busy(yes: boolean): void {
  button.disabled = yes;
  stopper.hidden = !yes;
  progress.hidden = !yes;
  ways.disabled = yes;
  form.setAttribute("aria-busy", String(yes));
}

function measured(done: number, total: number): void {
  if (total === 0) progress.removeAttribute("value");
  else Object.assign(progress, { max: total, value: done });
}

function over(words: string, again: boolean): void {
  if (!again) {
    session?.stop();
    session = undefined;
    held = false;
  }
  busy(false);
  priced();
  say(words, "problem");
}

function told(event: Told): void {
  switch (event.kind) {
    case "loaded":
      measured(event.done, event.total);
      say(`loading the public part of the model: ${bytes(event.done)} of ${bytes(event.total)}`);
      break;
    case "ready":
      measured(0, 0);
      begin();
      break;
    case "node":
      measured(0, 0);
      say(step(event.name));
      break;
    case "uploaded":
      measured(event.done, event.total);
      held = event.done === event.total;
      say(uploaded(event.done, event.total, event.left));
      break;
    case "evaluated":
      evaluated(event);
      break;
    case "answer":
      answered(event);
      break;
    case "written":
      written(event);
      break;
    case "failed":
      over(event.message, event.again);
      break;
    case "closed":
      if (!button.disabled) leave(); // between two texts: the next one connects again
  }
}

function uploaded(done: number, total: number, left: number): string {
  return `making and sending keys: ${bytes(done)} of ${bytes(total)}, ${about(left)} left`;
}

function evaluated({ stage, done, total, left }: Evaluated): void {
  measured(done, total);
  const rest = left === null ? "" : `, ${about(1000 * left)} left`;
  say(`the server computes: ${step(stage)}${rest}`);
}

/** What it took since `before`. */
function taken({ sent, received, rounds }: Cost): Cost {
  return {
    sent: sent - before.sent,
    received: received - before.received,
    rounds: rounds === null ? null : rounds - (before.rounds ?? 0),
  };
}

function answered(event: Answered): void {
  const cost = taken(event);
  before = event;
  busy(false);
  const label = show(event, cost, performance.now() - began, model.value, chosen());
  result.hidden = false;
  priced();
  say(`Answer: ${label}`);
}

function written(event: Written): void {
  tokens += 1;
  written_text += event.text;
  showWritten(pending + written_text, tokens, taken(event), performance.now() - began, model.value);
  result.hidden = false;
  if (event.last || stopping) ended(event);
}

/** The text is over. cost: of the session so far. */
function ended(cost: Cost): void {
  before = cost;
  busy(false);
  priced();
  say(`Written: ${tokens} tokens`);
}

function wish(): Wish {
  return { most: Number(most.value), thousandths: Math.round(1000 * Number(temperature.value)) };
}

/** Asks the session that is there about what is pending. */
function begin(): void {
  if (!writes(asked())) session?.ask(pending);
  else session?.write?.(pending, wish());
}

/** A text that is written ends behind the token that is computed now; all else ends at once. */
function stop(): void {
  if (tokens === 0 || !session?.enough) return over("stopped", false);
  session.enough();
  stopping = true;
  say("stopping behind this token");
}

/** The token that calls show: of the form, else the one that the server offered. */
function access(): string {
  return token.value.trim() || (offered.visitor ?? "");
}

function asked(): Model {
  const found = offered.models.find((each) => each.name === model.value);
  if (!found) throw new Error("no model is chosen");
  return found;
}

/** The way that is chosen, of the model that is. */
function chosen(): Offer {
  const scheme = new FormData(form).get("way") ?? "";
  const offers = offersOf(asked());
  return offers.find((offer) => offer.scheme === scheme) ?? (offers[0] as Offer);
}

function priced(): void {
  if (offered.models.length > 0) element("price", HTMLElement).textContent = price(chosen(), held);
}

async function opened(): Promise<Session> {
  const [name, offer, shown] = [model.value, chosen(), access()];
  if (offer.connected) return open(name, shown, told);
  return openFiles({ model: name, offer, token: shown, signer: offered.signer, insecure }, told);
}

async function ask(): Promise<void> {
  result.hidden = true;
  [written_text, tokens, stopping] = ["", 0, false];
  began = performance.now();
  pending = text.value;
  if (session) {
    busy(true);
    begin();
    return;
  }
  say("connecting");
  before = NOTHING;
  const opening = opened(); // which reads the form before it is disabled
  busy(true);
  session = await opening;
}

function described(found: Model): HTMLOptionElement {
  const most = Math.max(...offersOf(found).map((offer) => offer.tokens));
  const labels = found.labels.join(", ") || found.task;
  return new Option(`${found.name} (${labels}, up to ${most} tokens)`, found.name);
}

function listWays(): void {
  const offers = offersOf(asked());
  ways.hidden = offers.length < 2;
  const generates = writes(asked());
  wishes.hidden = !generates;
  wishes.disabled = !generates; // or its fields must be filled in
  button.textContent = generates ? "Write" : "Classify";
  ways.replaceChildren(ways.firstElementChild as Element, ...radios(offers));
  priced();
}

async function list(): Promise<void> {
  try {
    offered = await models(token.value.trim());
    const found = offered.models;
    model.replaceChildren(...found.map(described));
    button.disabled = found.length === 0;
    if (found.length) listWays();
    const none = "this server has no model that a page can ask";
    say(found.length ? "" : none, found.length ? "" : "problem");
  } catch (error) {
    locked.hidden = false;
    over(error instanceof Error ? error.message : "the server does not answer", false);
    button.disabled = true;
  }
}

function leave(): void {
  session?.end();
  session = undefined;
  held = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask().catch((error: unknown) => over(error instanceof Error ? error.message : String(error), false));
});
stopper.addEventListener("click", stop);
model.addEventListener("change", () => {
  leave();
  listWays();
});
ways.addEventListener("change", () => {
  leave();
  priced();
});
token.addEventListener("change", () => {
  leave();
  void list();
});
window.addEventListener("pagehide", leave);
element("insecure", HTMLElement).hidden = !insecure;
if (crossOriginIsolated) void list();
else over("this page needs the headers COOP and COEP, over HTTPS or from this machine", false);
