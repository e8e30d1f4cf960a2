/** Texts that are asked about, one after another: the session, what it says, and what comes of them. */
import { openFiles } from "./files/session.js";
import * as form from "./form.js";
import { known, t } from "./language.js";
import type { Answer, Answered, Cost, Evaluated, Message, Written } from "./messages.js";
import { count, depart, pass, sees } from "./picture.js";
import { beginWork, elapsed, foresee, resetClock, startClock, stopClock } from "./progress.js";
import { quote, say, sayStep } from "./progress.js";
import { element, showClasses, showCost, showExtract, showFilled } from "./result.js";
import { showNearest, showTags, showVector, showWritten } from "./result.js";
import type { Tie } from "./result.js";
import { open } from "./session.js";
import type { Session } from "./session.js";
import { bytes, step } from "./words.js";

const NOTHING: Cost = { sent: 0, received: 0, rounds: 0 };
export const insecure = new URLSearchParams(location.search).has("allow-insecure");

let session: Session | undefined;
let question: form.Question | undefined; // that the texts are of
let busy = false; // whether texts are under way
let held = false; // whether this page's keys are at the server
let texts: string[] = [];
let answers: Answer[] = []; // of the first of them
const vectors = new Map<string, Answer>(); // of lines that this session has asked about
let asks = 0; // of the texts, those that the server was asked about
let at: Date | null = null; // when the first of them was asked
let start = NOTHING; // of the session, then
let moved = NOTHING; // of the session so far, as far as the page was told
let warm = false; // whether the session has answered
let layers = 1; // of the model
let layer = 0; // share of the text by layers
let mark = NOTHING; // of the session, when the text that is computed was asked
let writing = ""; // what is written so far
let tokens = 0; // of the text that is written
let ties: Tie[] = []; // of them
let stopping = false; // whether no further one is wanted
let draw: () => string = () => ""; // shows the result, in the language that is spoken

export function holdsKeys(): boolean {
  return held;
}

/** The numbers of the answer that is shown. */
export function numbers(): readonly number[] {
  return answers[0]?.logits ?? [];
}

/** Asks about what the form holds. */
export function ask(): void {
  element("result", HTMLElement).hidden = true;
  [writing, tokens, ties, stopping, answers, asks] = ["", 0, [], false, [], 0];
  [at, texts, start] = [new Date(), [form.text.value, ...form.searchLines()], moved];
  question = form.question();
  resetClock();
  form.keepWay();
  depart(form.text.value);
  look();
  if (session) {
    lock();
    return begin();
  }
  say(t("connecting"));
  sayStep("");
  session = openSession(); // which reads the form before it is disabled
  lock();
}

function lock(): void {
  busy = true;
  form.lock(true);
  startClock(share);
}

function unlock(): void {
  busy = false;
  form.lock(false);
  stopClock();
  form.showWay(held);
}

/** Which part of the texts is done, null where that cannot be told: by tokens that are written, else by bytes
 * that were moved of those that a text moves. The first text of a session moves more, and goes by layers. */
function share(): number | null {
  if (!question) return null;
  const { offer, kind, wish } = question;
  if (kind === "generate") return tokens / wish.most || null;
  if (!offer.connected) return null;
  const bytes = (moved.sent + moved.received - mark.sent - mark.received) / offer.traffic_bytes;
  return (answers.length + Math.min(0.99, warm ? bytes : layer)) / texts.length;
}

function openSession(): Session {
  const [name, offer, token] = [form.model.value, form.chosenOffer(), form.access()];
  if (offer.connected) return open(name, token, receive);
  return openFiles({ model: name, offer, token, signer: form.signer(), insecure }, receive);
}

/** Nothing comes of the texts. more: whether the session goes on. */
export function fail(words: string, more: boolean): void {
  if (!more) {
    session?.stop();
    forget();
  }
  unlock();
  if (known(words)) say(t(words), "problem");
  else quote(words);
}

/** A text that is written ends behind the token that is computed now; all else ends at once. */
export function stop(): void {
  if (tokens === 0 || !session?.enough) return fail("stopped", false);
  session.enough();
  stopping = true;
  sayStep(t("stopping behind this token"));
}

/** Ends the session, if there is one; the server drops what it has of it. Nothing comes of texts that are
 * under way. */
export function leave(): void {
  if (!busy) session?.end();
  else {
    session?.stop();
    unlock();
    sayStep("");
    say("");
  }
  forget();
}

function forget(): void {
  session = undefined;
  held = false;
  vectors.clear();
  start = moved = NOTHING;
  warm = false;
}

function receive(message: Message): void {
  switch (message.kind) {
    case "loaded":
      foresee();
      sayStep(t("loading the public part of the model: {done} of {total}", sizes(message)));
      break;
    case "ready":
      layers = message.layers;
      begin();
      break;
    case "node":
      foresee();
      if (message.name !== "set-up") reach(message.name);
      sayStep(step(message.name));
      break;
    case "passed":
      move({ ...moved, sent: message.sent, received: message.received });
      pass(message);
      break;
    case "uploaded":
      foresee(message.done / message.total, message.left);
      held = message.done === message.total;
      sayStep(t("making and sending keys: {done} of {total}", sizes(message)));
      break;
    case "evaluated":
      showStage(message);
      break;
    case "answer":
      take(message);
      break;
    case "written":
      append(message);
      break;
    case "failed":
      fail(message.message, message.again);
      break;
    case "closed":
      if (!busy) leave(); // between two texts: the next one connects again
  }
}

function reach(node: string): void {
  beginWork();
  const at = /^layer(\d+)\.(\w+)/.exec(node);
  layer = (at ? Number(at[1]) + (at[2] === "attention" ? 0 : 0.5) : layers) / (layers + 0.25);
}

function sizes({ done, total }: { done: number; total: number }): { done: string; total: string } {
  return { done: bytes(done), total: bytes(total) };
}

function showStage({ stage, done, total, left }: Evaluated): void {
  if (left !== null && total > 0) foresee(done / total, 1000 * left);
  else foresee();
  sayStep(t("the server computes: {step}", { step: step(stage) }));
}

function move({ sent, received, rounds }: Cost): void {
  moved = { sent, received, rounds };
  count(sent - start.sent, received - start.received);
  look();
}

/** Shows what the server has seen of the texts so far. */
export function look(): void {
  const seen = { model: form.model.value, at, texts: Math.max(1, asks), sent: moved.sent - start.sent };
  const written = form.kind() === "generate" ? tokens : null;
  const { connected, kept_bytes } = form.chosenOffer();
  sees({ ...seen, written, connected, kept: Boolean(kept_bytes) });
}

/** What the texts took so far. */
function cost(): Cost {
  const { sent, received, rounds } = moved;
  const waits = rounds === null ? null : rounds - (start.rounds ?? 0);
  return { sent: sent - start.sent, received: received - start.received, rounds: waits };
}

/** Asks the session that is there about the next text; lines that were asked about are not asked again. */
function begin(): void {
  for (let old; answers.length && (old = vectors.get(texts[answers.length] ?? "")); ) answers.push(old);
  const next = texts[answers.length];
  if (next === undefined) return show();
  [mark, layer, asks] = [moved, 0, asks + 1];
  look();
  if (texts.length > 1) say(t("text {at} of {count}", { at: answers.length + 1, count: texts.length }));
  else say(t("Under way: only unreadable bytes leave this page"));
  if (!question) return;
  if (question.kind === "generate") session?.write?.(next, question.wish);
  else session?.ask(next, question.second);
}

function take(message: Answered): void {
  move(message);
  warm = true;
  if (answers.length > 0) vectors.set(texts[answers.length] ?? "", message.answer);
  answers.push(message.answer);
  if (answers.length < texts.length && message.answer.trusted) begin();
  else show();
}

/** Shows what came of the texts. */
function show(): void {
  if (!question) return;
  const { labels, lines: context, kind: what } = question;
  const [all, found, price, took] = [texts, answers, cost(), elapsed()];
  unlock();
  finish(() => {
    const [first] = found as [Answer];
    const text = all[0] ?? "";
    showCost(price, took);
    if (what === "tag") return showTags(first, text);
    if (what === "fill") return showFilled(first, text);
    if (what === "answer") return showExtract(first, context);
    if (what !== "embed") return showClasses(first, labels);
    return all.length > 1 ? showNearest(first, all.slice(1), found.slice(1)) : showVector(first);
  });
}

function finish(drawing: () => string, words = (label: string) => t("Answer: {label}", { label })): void {
  draw = drawing;
  const label = draw();
  look();
  element("result", HTMLElement).hidden = false;
  say(words(label), "answer");
}

function append(message: Written): void {
  move(message);
  tokens += 1;
  writing += message.text;
  if (message.near?.length) ties = [...ties, { token: tokens, near: message.near }];
  const [whole, number, price, took] = [(texts[0] ?? "") + writing, tokens, cost(), elapsed()];
  const [alike, warning] = [ties, message.warning ?? ""];
  const drawing = (): string => (showCost(price, took), showWritten(whole, number, alike, warning));
  drawing();
  element("result", HTMLElement).hidden = false;
  if (!message.last && !stopping) return;
  unlock();
  const written = t("Written: {count} tokens", { count: number });
  finish(drawing, () => `${written} ${warning}`.trim());
}

/** Shows the result once more, in the language that is spoken. */
export function redraw(): void {
  look();
  draw();
}
