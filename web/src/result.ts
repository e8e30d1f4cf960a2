/** What an answer shows: label, scores, what it took. */
import type { Offer } from "./service.js";
import type { Answered } from "./told.js";
import { bytes, percent, seconds } from "./words.js";

const NONE = "none: its checks failed";

export function element<E extends HTMLElement>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/** Of one text: bytes both ways, times that this side waited. */
export interface Cost {
  readonly sent: number;
  readonly received: number;
  readonly rounds: number | null;
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

function showCost(cost: Cost, took: number): void {
  element("cost", HTMLTableSectionElement).replaceChildren(
    row("Time", seconds(took)),
    row("Sent", bytes(cost.sent)),
    row("Received", bytes(cost.received)),
    ...(cost.rounds === null ? [] : [row("Messages waited for", String(cost.rounds))]),
  );
}

/** Shows an answer and returns its label. took: milliseconds. */
export function show({ answer }: Answered, cost: Cost, took: number, model: string, offer: Offer): string {
  const label = answer.label ?? answer.logits?.map(String).join(", ") ?? NONE;
  element("label", HTMLElement).textContent = label;
  element("written", HTMLElement).hidden = true;
  element("scores", HTMLTableSectionElement).replaceChildren(
    ...answer.scores.map((score) => row(score.label, percent(score.score))),
  );
  element("warnings", HTMLElement).textContent = answer.warnings.join(" ");
  showCost(cost, took);
  const kind = offer.connected
    ? "ciphertexts and numbers that look random to it"
    : "public keys and ciphertexts, which it computed on without a key to them";
  element("saw", HTMLElement).textContent =
    `your address, the time, that you asked ${model} about one text, and ${bytes(cost.sent)} of ${kind}`;
  element("unseen", HTMLElement).textContent = "It did not see the text, how long it is, or the answer.";
  return label;
}

/** Shows a text that is written, as far as it is there. count: of its tokens. took: milliseconds. */
export function showWritten(text: string, count: number, cost: Cost, took: number, model: string): void {
  element("label", HTMLElement).textContent = count === 1 ? "1 token" : `${count} tokens`;
  Object.assign(element("written", HTMLElement), { hidden: false, textContent: text });
  element("scores", HTMLTableSectionElement).replaceChildren();
  element("warnings", HTMLElement).textContent = "";
  showCost(cost, took);
  element("saw", HTMLElement).textContent =
    `your address, the time, that ${model} wrote ${count} tokens behind a prompt whose length it knows to 16 ` +
    `tokens, and ${bytes(cost.sent)} of ciphertexts and numbers that look random to it`;
  element("unseen", HTMLElement).textContent = "It did not see the prompt, or what was written.";
}
