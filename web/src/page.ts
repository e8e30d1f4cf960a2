/** The page: a form, the way of a text, an answer. */
import { EXAMPLES } from "./examples.js";
import { openFiles } from "./files/session.js";
import { known, LANGUAGES, language, speak, t, translate, wanted } from "./language.js";
import type { Key, Language } from "./language.js";
import { count, depart, mine, pass, sees } from "./picture.js";
import { element, showClasses, showCost, showExtract, showNearest, showTags, showVector, showWritten } from "./result.js";
import type { Cost } from "./result.js";
import { kindOf, models, offersOf } from "./service.js";
import type { Kind, Model, Models, Offer } from "./service.js";
import { open } from "./session.js";
import type { Session } from "./session.js";
import type { Answer, Answered, Evaluated, Told, Wish, Written } from "./told.js";
import { price, radios } from "./ways.js";
import { about, bytes, seconds, step } from "./words.js";

const form = element("ask", HTMLFormElement);
const text = element("text", HTMLTextAreaElement);
const lines = element("lines", HTMLTextAreaElement);
const token = element("token", HTMLInputElement);
const model = element("model", HTMLSelectElement);
const ways = element("ways", HTMLFieldSetElement);
const wishes = element("wishes", HTMLFieldSetElement);
const most = element("most", HTMLInputElement);
const temperature = element("temperature", HTMLInputElement);
const button = element("go", HTMLButtonElement);
const stopper = element("stop", HTMLButtonElement);
const status = element("status", HTMLElement);
const waiting = element("waiting", HTMLElement);
const progress = element("progress", HTMLProgressElement);
const NOTHING: Cost = { sent: 0, received: 0, rounds: 0 };
const CLEAR = 0.03; // share of the work behind which what is left can be told from it
const insecure = new URLSearchParams(location.search).has("allow-insecure");

/** How a kind of model is asked: what its button, its first and its second field are called. */
const FORMS: Readonly<Record<Kind, { go: Key; text: Key; more?: Key; what: Key }>> = {
  classify: { go: "Classify", text: "Text", what: "numbers" },
  embed: { go: "Embed", text: "Text", more: "Search among these lines (one text a line; may stay empty)", what: "vectors" },
  tag: { go: "Tag", text: "Text", what: "labels of words" },
  answer: { go: "Answer", text: "Question", more: "Context", what: "answers from a context" },
  generate: { go: "Write", text: "Prompt", what: "writes texts" },
};

let offered: Models = { signer: "", models: [] };
let session: Session | undefined;
let held = false; // whether this page's keys are at the server
let queue: string[] = []; // texts that are asked about, one after another
let found: Answer[] = []; // of the first of them
const vectors = new Map<string, Answer>(); // of lines that this session has asked about
let asks = 0; // of the queue, those that the server was asked about
let began = 0;
let at = new Date();
let start = NOTHING; // of the session, when the first of the queue was asked
let moved = NOTHING; // of the session so far, as far as the page was told
let working = 0; // when the model began to run, behind the keys of a session
let warm = false; // whether the session has answered
let layers = 1; // of the model
let layer = 0; // share of the text by layers
let mark = NOTHING; // of the session, when the text that is computed was asked
let foretold: { share: number; left: number; told: number } | undefined; // by who computes
let written_text = "";
let tokens = 0; // of the text that is written
let stopping = false; // whether no further one is wanted
let again: () => void = () => undefined; // shows the result once more, in another language
let ticking = 0;

function say(words: string, kind: "" | "problem" | "answer" = ""): void {
  status.textContent = words;
  status.dataset["kind"] = kind;
  status.lang = language();
}

function doing(words: string): void {
  element("step", HTMLElement).textContent = words;
}

function busy(yes: boolean): void {
  const [from, to] = yes ? [button, stopper] : [stopper, button];
  const focused = document.activeElement === from;
  stopper.hidden = !yes;
  button.disabled = yes;
  if (focused) to.focus(); // which an element that goes away would lose
  waiting.hidden = !yes;
  ways.disabled = yes;
  form.setAttribute("aria-busy", String(yes));
  document.body.dataset["state"] = yes ? "busy" : "still";
  clearInterval(ticking);
  if (!yes) return;
  ticking = setInterval(tick, 250);
  tick();
}

/** Time so far, and what is left: as whoever computes says, else as `share` lets expect. */
function tick(): void {
  const now = performance.now();
  const elapsed = now - began;
  const done = foretold?.share ?? share();
  const rest = left(done, now);
  if (done === null) progress.removeAttribute("value");
  else progress.value = done;
  const so_far = seconds(elapsed);
  element("clock", HTMLElement).textContent =
    rest === null || rest < 1000
      ? t("{elapsed} so far", { elapsed: so_far })
      : t("{elapsed} so far, about {left} left", { elapsed: so_far, left: about(rest) });
}

/** Which part of the queue is done, null where that cannot be told: by tokens that are written, else by bytes
 * that were moved of those that a text moves. The first text of a session moves more, and goes by layers. */
function share(): number | null {
  const offer = chosen();
  if (!offer.connected || !working) return null;
  if (kind() === "generate") return tokens / Number(most.value) || null;
  const bytes = (moved.sent + moved.received - mark.sent - mark.received) / offer.traffic_bytes;
  return (found.length + Math.min(0.99, warm ? bytes : layer)) / queue.length;
}

function left(share: number | null, now: number): number | null {
  if (foretold) return foretold.left - (now - foretold.told);
  return share && working && share > CLEAR ? ((now - working) * (1 - share)) / share : null;
}

function over(words: string, more: boolean): void {
  if (!more) {
    session?.stop();
    forget();
  }
  busy(false);
  priced();
  say(known(words) ? t(words) : words, "problem");
  if (!known(words)) status.lang = "en";
}

function forget(): void {
  session = undefined;
  held = false;
  vectors.clear();
  start = moved = NOTHING;
  warm = false;
}

function told(event: Told): void {
  switch (event.kind) {
    case "loaded":
      foretold = undefined;
      doing(t("loading the public part of the model: {done} of {total}", sized(event)));
      break;
    case "ready":
      layers = event.layers;
      begin();
      break;
    case "node":
      foretold = undefined;
      if (event.name !== "set-up") reached(event.name);
      doing(step(event.name));
      break;
    case "passed":
      passed(event.sent, event.received);
      pass(event);
      break;
    case "uploaded":
      foretold = { share: event.done / event.total, left: event.left, told: performance.now() };
      held = event.done === event.total;
      doing(t("making and sending keys: {done} of {total}", sized(event)));
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

function reached(node: string): void {
  working ||= performance.now();
  const at = /^layer(\d+)\.(\w+)/.exec(node);
  layer = (at ? Number(at[1]) + (at[2] === "attention" ? 0 : 0.5) : layers) / (layers + 0.25);
}

function sized({ done, total }: { done: number; total: number }): { done: string; total: string } {
  return { done: bytes(done), total: bytes(total) };
}

function evaluated({ stage, done, total, left }: Evaluated): void {
  const known = left !== null && total > 0;
  foretold = known ? { share: done / total, left: 1000 * left, told: performance.now() } : undefined;
  doing(t("the server computes: {step}", { step: step(stage) }));
}

function passed(sent: number, received: number, rounds = moved.rounds): void {
  moved = { sent, received, rounds };
  count(sent - start.sent, received - start.received);
  look();
}

/** What the server has seen of the queue so far. */
function look(): void {
  const seen = { model: model.value, at: began ? at : null, texts: Math.max(1, asks), sent: moved.sent - start.sent };
  sees({ ...seen, written: kind() === "generate" ? tokens : null, connected: chosen().connected });
}

/** What the queue took so far. */
function taken(): Cost {
  const { sent, received, rounds } = moved;
  const waited = rounds === null ? null : rounds - (start.rounds ?? 0);
  return { sent: sent - start.sent, received: received - start.received, rounds: waited };
}

function answered(event: Answered): void {
  passed(event.sent, event.received, event.rounds);
  warm = true;
  if (found.length > 0) vectors.set(queue[found.length] ?? "", event.answer);
  found.push(event.answer);
  if (found.length < queue.length && event.answer.trusted) begin();
  else shown();
}

/** Shows what came of the queue. */
function shown(): void {
  const [texts, answers, labels] = [queue, found, asked().labels];
  const [cost, took, what] = [taken(), performance.now() - began, kind()];
  const context = lines.value;
  busy(false);
  const draw = (): string => {
    const [first] = answers as [Answer];
    showCost(cost, took);
    if (what === "tag") return showTags(first, texts[0] ?? "");
    if (what === "answer") return showExtract(first, context);
    if (what !== "embed") return showClasses(first, labels);
    return texts.length > 1 ? showNearest(first, texts.slice(1), answers.slice(1)) : showVector(first);
  };
  finish(draw);
}

function finish(draw: () => string, words: (label: string) => string = (label) => t("Answer: {label}", { label })): void {
  again = () => void draw();
  const label = draw();
  look();
  element("result", HTMLElement).hidden = false;
  priced();
  say(words(label), "answer");
}

function written(event: Written): void {
  passed(event.sent, event.received, event.rounds);
  tokens += 1;
  written_text += event.text;
  const [all, number, cost, took] = [(queue[0] ?? "") + written_text, tokens, taken(), performance.now() - began];
  const draw = (): string => (showCost(cost, took), showWritten(all, number));
  draw();
  element("result", HTMLElement).hidden = false;
  if (!event.last && !stopping) return;
  busy(false);
  finish(draw, () => t("Written: {count} tokens", { count: number }));
}

function wish(): Wish {
  return { most: Number(most.value), thousandths: Math.round(1000 * Number(temperature.value)) };
}

/** Asks the session that is there about the next of the queue. */
function begin(): void {
  for (let cached; (cached = found.length ? vectors.get(queue[found.length] ?? "") : undefined); ) found.push(cached);
  const next = queue[found.length];
  if (next === undefined) return shown();
  [mark, layer, asks] = [moved, 0, asks + 1];
  look();
  if (queue.length > 1) say(t("text {at} of {count}", { at: found.length + 1, count: queue.length }));
  else say(t("Under way: only unreadable bytes leave this page"));
  if (kind() === "generate") session?.write?.(next, wish());
  else session?.ask(next, kind() === "answer" ? lines.value : "");
}

/** A text that is written ends behind the token that is computed now; all else ends at once. */
function stop(): void {
  if (tokens === 0 || !session?.enough) return over("stopped", false);
  session.enough();
  stopping = true;
  doing(t("stopping behind this token"));
}

/** The token that calls show: of the form, else the one that the server offered. */
function access(): string {
  return token.value.trim() || (offered.visitor ?? "");
}

function asked(): Model {
  const named = offered.models.find((each) => each.name === model.value);
  if (!named) throw new Error("no model is chosen");
  return named;
}

function kind(): Kind {
  return kindOf(asked()) ?? "classify";
}

/** The way that is chosen, of the model that is. */
function chosen(): Offer {
  const scheme = new FormData(form).get("way") ?? way;
  const offers = offersOf(asked());
  return offers.find((offer) => offer.scheme === scheme) ?? (offers[0] as Offer);
}

let way = ""; // scheme that was chosen last, while the form is disabled

function priced(): void {
  if (offered.models.length > 0) element("price", HTMLElement).textContent = price(chosen(), held);
}

function opened(): Session {
  const [name, offer, shown] = [model.value, chosen(), access()];
  if (offer.connected) return open(name, shown, told);
  return openFiles({ model: name, offer, token: shown, signer: offered.signer, insecure }, told);
}

/** The lines of the second field, of a model that a search is made with. */
function searched(): string[] {
  return kind() === "embed" ? lines.value.split("\n").filter((line) => line.trim()) : [];
}

function ask(): void {
  element("result", HTMLElement).hidden = true;
  [written_text, tokens, stopping, found] = ["", 0, false, []];
  [foretold, working, asks] = [undefined, 0, 0];
  [began, at, queue, start] = [performance.now(), new Date(), [text.value, ...searched()], moved];
  way = chosen().scheme;
  depart(text.value);
  look();
  if (session) {
    busy(true);
    return begin();
  }
  say(t("connecting"));
  doing("");
  session = opened(); // which reads the form before it is disabled
  busy(true);
}

function described(each: Model): HTMLOptionElement {
  const longest = Math.max(...offersOf(each).map((offer) => offer.tokens));
  const what = each.labels.slice(0, 4).join(", ") || t(FORMS[kindOf(each) ?? "classify"].what);
  return new Option(t("{name} ({what}, up to {count} tokens)", { name: each.name, what, count: longest }), each.name);
}

function example(words: { text: string; lines?: string }): HTMLButtonElement {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: words.text });
  made.addEventListener("click", () => {
    text.value = words.text;
    lines.value = words.lines ?? "";
    filled();
  });
  return made;
}

function filled(): void {
  mine(text.value);
  button.textContent = t(searched().length ? "Search" : FORMS[kind()].go);
}

/** The form of the model that is chosen. fresh: with its first example. */
function shape(fresh: boolean): void {
  const { text: name, more } = FORMS[kind()];
  const offers = offersOf(asked());
  ways.hidden = offers.length < 2;
  ways.lastElementChild?.replaceChildren(...radios(offers, way));
  wishes.hidden = kind() !== "generate";
  wishes.disabled = wishes.hidden; // or its fields must be filled in
  element("asked", HTMLElement).textContent = t(name);
  element("more", HTMLElement).hidden = !more;
  if (more) element("kind-of-lines", HTMLElement).textContent = t(more);
  lines.required = kind() === "answer";
  const examples = EXAMPLES[kind()];
  element("examples", HTMLElement).replaceChildren(...examples.map(example));
  if (fresh) Object.assign(text, { value: examples[0]?.text ?? "" });
  if (fresh) Object.assign(lines, { value: examples[0]?.lines ?? "" });
  filled();
  priced();
}

function choices(): void {
  const name = model.value;
  model.replaceChildren(...offered.models.map(described));
  if (name) model.value = name;
}

async function list(): Promise<void> {
  try {
    offered = await models(token.value.trim());
    choices();
    button.disabled = offered.models.length === 0;
    if (button.disabled) return say(t("this server has no model that a page can ask"), "problem");
    shape(true);
    look();
    say("");
  } catch (error) {
    element("access", HTMLElement).hidden = false;
    over(error instanceof Error ? error.message : "the server does not answer", false);
    button.disabled = true;
  }
}

function leave(): void {
  session?.end();
  forget();
}

function languages(): void {
  const switches = Object.entries(LANGUAGES).map(([which, name]) => {
    const made = Object.assign(document.createElement("button"), { type: "button", lang: which, textContent: name });
    made.ariaPressed = String(which === language());
    made.addEventListener("click", () => choose(which as Language));
    return made;
  });
  element("languages", HTMLElement).replaceChildren(...switches);
}

function choose(which: Language): void {
  const address = new URL(location.href);
  address.searchParams.set("lang", which);
  history.replaceState(null, "", address);
  speak(which);
  translate();
  languages();
  element("languages", HTMLElement).querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
  if (offered.models.length === 0) return;
  choices();
  shape(false);
  look();
  again();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    ask();
  } catch (error) {
    over(error instanceof Error ? error.message : String(error), false);
  }
});
for (const field of [text, lines]) field.addEventListener("input", filled);
stopper.addEventListener("click", stop);
element("copy", HTMLElement).addEventListener("click", () => {
  void navigator.clipboard.writeText(JSON.stringify(found[0]?.logits ?? [])).then(() => say(t("copied")));
});
model.addEventListener("change", () => {
  leave();
  element("result", HTMLElement).hidden = true;
  shape(true);
});
ways.addEventListener("change", () => {
  leave();
  way = chosen().scheme;
  priced();
});
token.addEventListener("change", () => {
  leave();
  void list();
});
window.addEventListener("pagehide", leave);
element("insecure", HTMLElement).hidden = !insecure;
speak(wanted(location.href, navigator.languages));
translate();
languages();
if (crossOriginIsolated) void list();
else over("this page needs the headers COOP and COEP, over HTTPS or from this machine", false);
