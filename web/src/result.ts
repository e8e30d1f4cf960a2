/** What an answer shows: label, scores, spans, a vector, what it took. */
import { number, t } from "./language.js";
import type { Answer, Cost, Span } from "./messages.js";
import { bytes, percent, seconds } from "./words.js";

const FEW = 12; // numbers that are shown where there is nothing else

export function element<E extends HTMLElement>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/** share: how much of the row its bar takes, from 0 to 1. */
function row(name: string, value: string, share?: number): HTMLTableRowElement {
  const made = document.createElement("tr");
  const head = Object.assign(document.createElement("th"), { scope: "row", textContent: name });
  made.append(head, Object.assign(document.createElement("td"), { textContent: value }));
  if (share !== undefined) made.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
  return made;
}

export function showCost(cost: Cost, took: number): void {
  element("cost", HTMLTableSectionElement).replaceChildren(
    row(t("Time"), seconds(took)),
    row(t("Sent"), bytes(cost.sent)),
    row(t("Received"), bytes(cost.received)),
    ...(cost.rounds === null ? [] : [row(t("Times waited for the server"), String(cost.rounds))]),
  );
}

type Rows = readonly HTMLTableRowElement[];

function headline(label: string, rows: Rows = [], warnings: readonly string[] = []): void {
  element("label", HTMLElement).textContent = label;
  element("scores", HTMLTableSectionElement).replaceChildren(...rows);
  element("scored", HTMLElement).hidden = rows.length === 0;
  element("warnings", HTMLElement).textContent = warnings.join(" ");
  for (const id of ["written", "ties", "marked", "vector"]) element(id, HTMLElement).hidden = true;
}

function withheld({ warnings }: Answer): string {
  const label = t("none: its checks failed");
  headline(label, [], warnings);
  return label;
}

/** Shows labels and scores, and returns the label. labels: of the numbers, where there are no scores. */
export function showClasses(answer: Answer, labels: readonly string[]): string {
  if (!answer.trusted) return withheld(answer);
  const scores = answer.scores.map((each) => row(each.label, percent(each.score), each.score));
  const numbers = (answer.logits ?? []).slice(0, labels.length || FEW);
  const plain = numbers.map((each, index) => row(labels[index] ?? String(index), number(each, 3)));
  const none = scores.length ? t("no label holds") : numbers.map((each) => number(each, 3)).join(", ");
  const label = answer.label ?? none;
  headline(label, scores.length ? scores : plain, answer.warnings);
  return label;
}

/** Text with what was found in it. Spans are places between characters. */
function markUp(text: string, spans: readonly Span[]): void {
  const letters = Array.from(text);
  const parts: (Node | string)[] = [];
  let at = 0;
  for (const { label, start, end } of spans) {
    const mark = document.createElement("mark");
    mark.append(letters.slice(start, end).join(""));
    if (label) mark.append(Object.assign(document.createElement("small"), { textContent: label }));
    parts.push(letters.slice(at, start).join(""), mark);
    at = end;
  }
  parts.push(letters.slice(at).join(""));
  const place = element("marked", HTMLElement);
  place.replaceChildren(...parts);
  place.hidden = false;
}

function spell(text: string, { start, end }: Span): string {
  return Array.from(text).slice(start, end).join("");
}

/** Shows labelled places of a text, and returns them in words. */
export function showTags(answer: Answer, text: string): string {
  if (!answer.trusted) return withheld(answer);
  const spans = answer.spans ?? [];
  const words = (span: Span): string => `${spell(text, span)} (${span.label})`;
  const rows = spans.map((span) => row(words(span), percent(span.score), span.score));
  const label = spans.map(words).join(", ") || t("no span");
  headline(label, rows, answer.warnings);
  markUp(text, spans);
  return label;
}

/** Shows a text with the likeliest word in place of each mask, and returns it. Spans are candidates, those of
 * a mask from the likeliest on; a piece that goes on with a word is spelled with `##`. */
export function showFilled(answer: Answer, text: string): string {
  if (!answer.trusted) return withheld(answer);
  const spans = answer.spans ?? [];
  const best = spans.filter((span, at) => span.start !== spans[at - 1]?.start);
  const number = (span: Span): number => best.findIndex((each) => each.start === span.start) + 1;
  const name = (span: Span): string => (best.length > 1 ? `${number(span)}: ` : "") + span.label;
  const rows = spans.map((span) => row(name(span), percent(span.score), span.score));
  const letters = Array.from(text);
  const label = best.reduceRight((rest, { label, end }, at) => {
    const after = letters.slice(end, best[at + 1]?.start).join("");
    return label.replace(/^##/, "") + after + rest;
  }, "");
  const whole = letters.slice(0, best[0]?.start).join("") + label;
  headline(whole, rows, answer.warnings);
  return whole;
}

/** Shows the part of a context that answers a question, and returns it. */
export function showExtract(answer: Answer, context: string): string {
  const [span] = answer.spans ?? [];
  if (!answer.trusted || !span) return withheld(answer);
  const label = spell(context, span) || t("no span");
  headline(label, [row(label, percent(span.score), span.score)], answer.warnings);
  markUp(context, [{ ...span, label: "" }]);
  return label;
}

export function length(vector: readonly number[]): number {
  return Math.hypot(...vector);
}

/** Of the angle between two vectors. */
export function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, each, index) => sum + each * (b[index] ?? 0), 0);
  return dot / Math.max(length(a) * length(b), 1e-12);
}

/** Shows a vector, and returns its size in words. */
export function showVector(answer: Answer): string {
  const vector = answer.logits;
  if (!answer.trusted || !vector) return withheld(answer);
  const size = { count: vector.length, length: number(length(vector), 3) };
  const label = t("{count} numbers, length {length}", size);
  headline(label, [], answer.warnings);
  element("vector", HTMLElement).hidden = false;
  const canvas = element("vector", HTMLElement).querySelector("canvas") as HTMLCanvasElement;
  canvas.ariaLabel = label;
  const pen = canvas.getContext("2d");
  if (!pen) return label;
  canvas.width = vector.length;
  const half = canvas.height / 2;
  const most = Math.max(...vector.map(Math.abs), 1e-12);
  pen.fillStyle = getComputedStyle(canvas).color;
  vector.forEach((each, at) => pen.fillRect(at, half, 1, (-half * each) / most));
  return label;
}

/** Shows lines by their nearness to a text, the nearest first, and returns that one. */
export function showNearest(query: Answer, lines: readonly string[], found: readonly Answer[]): string {
  const doubtful = [query, ...found].find((each) => !each.trusted || !each.logits);
  if (doubtful) return withheld(doubtful);
  const scored = lines.map((line, at): [string, number] => {
    return [line, cosine(query.logits ?? [], found[at]?.logits ?? [])];
  });
  scored.sort(([, a], [, b]) => b - a);
  const label = scored[0]?.[0] ?? "";
  const warnings = new Set([query, ...found].flatMap((each) => each.warnings));
  headline(label, scored.map(([line, near]) => row(line, number(near, 3), Math.max(0, near))), [...warnings]);
  return label;
}

/** What might as well have come as a token, whose number is from 1 on. */
export interface Tie {
  readonly token: number;
  readonly near: readonly string[];
}

/** Shows a text that is written, as far as it is there. count: of its tokens. warning: of the last one. */
export function showWritten(text: string, count: number, ties: readonly Tie[], warning = ""): string {
  const label = count === 1 ? t("1 token") : t("{count} tokens", { count });
  headline(label, [], [warning]);
  Object.assign(element("written", HTMLElement), { hidden: false, textContent: text });
  const words = ties.map(({ token, near }) =>
    t("token {token} could as well be {others}", { token, others: near.map((word) => `“${word}”`).join(", ") }),
  );
  Object.assign(element("ties", HTMLElement), { hidden: ties.length === 0, textContent: words.join("; ") });
  return label;
}
