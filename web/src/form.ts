/** The form: the model that is chosen, the way to ask it, and the fields that its task has. */
import { EXAMPLES } from "./examples.js";
import { t } from "./language.js";
import type { Key } from "./language.js";
import type { Wish } from "./messages.js";
import { mine } from "./picture.js";
import { element } from "./result.js";
import { choosesAlone, kindOf, offersOf } from "./service.js";
import type { Kind, Model, Models, Offer } from "./service.js";
import { price, radios } from "./ways.js";

export const form = element("ask", HTMLFormElement);
export const text = element("text", HTMLTextAreaElement);
export const lines = element("lines", HTMLTextAreaElement);
export const token = element("token", HTMLInputElement);
export const model = element("model", HTMLSelectElement);
export const ways = element("ways", HTMLFieldSetElement);
export const button = element("go", HTMLButtonElement);
export const stopper = element("stop", HTMLButtonElement);
const more = element("more", HTMLDetailsElement);
const wishes = element("wishes", HTMLFieldSetElement);
const most = element("most", HTMLInputElement);
const temperature = element("temperature", HTMLInputElement);

/** How a kind of model is asked: what its button, its first and its second field are called. */
interface Shape {
  readonly go: Key;
  readonly text: Key;
  readonly more?: Key;
  readonly what: Key;
}

/** What is asked, whatever the form holds later. second: context, or second of a pair. lines: the second
 * field as it stood. */
export interface Question {
  readonly kind: Kind;
  readonly second: string;
  readonly lines: string;
  readonly labels: readonly string[];
  readonly wish: Wish;
  readonly offer: Offer;
}

const SHAPES: Readonly<Record<Kind, Shape>> = {
  classify: { go: "Classify", text: "Text", more: "Second text, for a model of pairs", what: "numbers" },
  embed: {
    go: "Embed",
    text: "Text",
    more: "Search among these lines (one text a line; may stay empty)",
    what: "vectors",
  },
  tag: { go: "Tag", text: "Text", what: "labels of words" },
  answer: { go: "Answer", text: "Question", more: "Context", what: "answers from a context" },
  fill: { go: "Fill", text: "Text with a mask", what: "words for a mask" },
  generate: { go: "Write", text: "Prompt", what: "writes texts" },
};

let offered: Models = { signer: "", models: [] };
let way = ""; // scheme that was chosen last, while the form is disabled

/** Takes what the server offers; false where there is nothing to ask. */
export function offer(models: Models): boolean {
  offered = models;
  listModels();
  return hasModels();
}

export function hasModels(): boolean {
  return offered.models.length > 0;
}

/** The key of the server's receipts. */
export function signer(): string {
  return offered.signer;
}

/** Names the models in the language that is spoken; the chosen one stays. */
export function listModels(): void {
  const name = model.value;
  model.replaceChildren(...offered.models.map(optionOf));
  if (name) model.value = name;
}

function optionOf(each: Model): HTMLOptionElement {
  const longest = Math.max(...offersOf(each).map((offer) => offer.tokens));
  const what = each.labels.slice(0, 4).join(", ") || t(SHAPES[kindOf(each) ?? "classify"].what);
  const words = t("{name} ({what}, up to {count} tokens)", { name: each.name, what, count: longest });
  return new Option(words, each.name);
}

/** The token that calls show: of the form, else the one that the server offered. */
export function access(): string {
  return token.value.trim() || (offered.visitor ?? "");
}

export function chosenModel(): Model {
  const named = offered.models.find((each) => each.name === model.value);
  if (!named) throw new Error("no model is chosen");
  return named;
}

export function kind(): Kind {
  return kindOf(chosenModel()) ?? "classify";
}

/** The way that is chosen, of the model that is. */
export function chosenOffer(): Offer {
  const scheme = new FormData(form).get("way") ?? way;
  const offers = offersOf(chosenModel());
  return offers.find((offer) => offer.scheme === scheme) ?? (offers[0] as Offer);
}

/** Remembers the way that is chosen. */
export function keepWay(): void {
  way = chosenOffer().scheme;
}

/** Shows what the chosen way takes, and the temperature where it has one. held: whether this page's keys are
 * at the server. */
export function showWay(held: boolean): void {
  if (!hasModels()) return;
  element("price", HTMLElement).textContent = price(chosenOffer(), held, kind() === "generate");
  temperature.disabled = choosesAlone(chosenModel(), chosenOffer());
  for (const each of [temperature, ...(temperature.labels ?? [])]) each.hidden = temperature.disabled;
}

/** The lines of the second field, of a model that a search is made with. */
export function searchLines(): string[] {
  return kind() === "embed" ? lines.value.split("\n").filter((line) => line.trim()) : [];
}

/** What the form asks now. */
export function question(): Question {
  const [{ labels }, what] = [chosenModel(), kind()];
  const second = what === "answer" || what === "classify" ? lines.value.trim() && lines.value : "";
  const heat = temperature.disabled ? 0 : Number(temperature.value);
  const wish = { most: Number(most.value), thousandths: Math.round(1000 * heat) };
  return { kind: what, second, lines: lines.value, labels, wish, offer: chosenOffer() };
}

/** Fits the form to the model that is chosen. fresh: with its first example. */
export function shape(fresh: boolean): void {
  const { text: name, more: second } = SHAPES[kind()];
  const offers = offersOf(chosenModel());
  ways.hidden = offers.length < 2;
  ways.lastElementChild?.replaceChildren(...radios(offers, way));
  wishes.hidden = kind() !== "generate";
  wishes.disabled = wishes.hidden; // or its fields must be filled in
  element("asked", HTMLElement).textContent = t(name);
  more.hidden = !second;
  if (fresh) more.open = kind() !== "classify"; // few classifiers take pairs
  lines.ariaLabel = element("kind-of-lines", HTMLElement).textContent = t(second ?? "Context");
  lines.required = kind() === "answer";
  const examples = EXAMPLES[kind()];
  element("examples", HTMLElement).replaceChildren(...examples.map(exampleButton));
  if (fresh) Object.assign(text, { value: examples[0]?.text ?? "" });
  if (fresh) Object.assign(lines, { value: examples[0]?.lines ?? "" });
  update();
}

function exampleButton(words: { text: string; lines?: string }): HTMLButtonElement {
  const content = { type: "button", textContent: words.text };
  const made = Object.assign(document.createElement("button"), content);
  made.addEventListener("click", () => {
    text.value = words.text;
    lines.value = words.lines ?? "";
    update();
  });
  return made;
}

/** Shows what the fields hold now. */
export function update(): void {
  mine(text.value);
  button.textContent = t(searchLines().length ? "Search" : SHAPES[kind()].go);
}

/** Whether a text is under way, in which case the form can only be stopped. */
export function lock(yes: boolean): void {
  const [from, to] = yes ? [button, stopper] : [stopper, button];
  const focused = document.activeElement === from;
  stopper.hidden = !yes;
  button.disabled = yes;
  if (focused) to.focus(); // which an element that goes away would lose
  ways.disabled = yes;
  form.setAttribute("aria-busy", String(yes));
  document.body.dataset["state"] = yes ? "busy" : "still";
}
