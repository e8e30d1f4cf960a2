/** The way of a text as a picture: the text, the bytes that travel, what the server sees. Whatever moves in
 * it is a message that was sent or came in: threads with the connection show the last bytes of some. */
import { language, t } from "./language.js";
import { element } from "./result.js";
import type { Passed } from "./messages.js";
import { bytes } from "./words.js";

const ROWS = 8; // messages in the picture
const SHORT = 8; // bytes of the last one, in digits
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

const canvas = element("bytes", HTMLElement).querySelector("canvas") as HTMLCanvasElement;
let rows: Passed[] = [];

function digits(tail: Uint8Array): string {
  return [...tail.subarray(-SHORT)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** A row a message, a cell a byte: the larger its value the stronger the colour. */
function draw(): void {
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(canvas);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  rows.forEach(({ out, tail }, row) => {
    pen.fillStyle = out ? style.color : style.outlineColor;
    tail.forEach((byte, column) => {
      pen.globalAlpha = 0.08 + (0.92 * byte) / 255;
      pen.fillRect(column, row, 1, 1);
    });
  });
}

/** A dot goes along both wires, to the server or from it. */
function travel(out: boolean): void {
  if (STILL.matches) return;
  const wires = [...document.querySelectorAll(".wire")];
  (out ? wires : wires.reverse()).forEach((wire, index) => {
    const dot = wire.children[out ? 0 : 1];
    const [from, to] = out ? ["0%", "100%"] : ["100%", "0%"];
    const ends = [{ offset: 0, top: from, opacity: 1 }, { top: to, opacity: 1 }];
    dot?.animate(ends, { duration: 400, delay: 200 * index, easing: "ease-in-out" });
  });
}

/** A text is asked about; nothing has travelled for it. */
export function depart(text: string): void {
  rows = [];
  element("mine", HTMLElement).textContent = text;
}

/** The text that is in the form now. */
export function mine(text: string): void {
  element("mine", HTMLElement).textContent = text;
}

/** Bytes of the text so far. */
export function count(sent: number, received: number): void {
  element("sent", HTMLElement).textContent = bytes(sent);
  element("received", HTMLElement).textContent = bytes(received);
}

/** A message. */
export function pass(passed: Passed): void {
  element("nothing", HTMLElement).hidden = true;
  element("bytes", HTMLElement).hidden = false;
  element(passed.out ? "out" : "in", HTMLElement).textContent = `… ${digits(passed.tail)}`;
  rows = [...rows, passed].slice(-ROWS);
  draw();
  travel(passed.out);
}

/** What the server has seen of texts. at: when, null before. written: tokens, of a text that is written. */
export interface Seen {
  readonly model: string;
  readonly at: Date | null;
  readonly texts: number;
  readonly written: number | null;
  readonly sent: number;
  readonly connected: boolean;
  readonly kept: boolean; // whether a request is a row of a text
}

function fact(name: string, what: string, secret = false): HTMLElement[] {
  const dd = Object.assign(document.createElement("dd"), { textContent: what });
  dd.classList.toggle("secret", secret);
  return [Object.assign(document.createElement("dt"), { textContent: name }), dd];
}

/** Shows what the server has seen. */
export function sees({ model, at, texts, written, sent, connected, kept }: Seen): void {
  const came = connected
    ? t("{bytes} of ciphertexts and numbers that look random", { bytes: bytes(sent) })
    : t("{bytes} of public keys and ciphertexts", { bytes: bytes(sent) });
  const told = connected
    ? "to 16 tokens (to one behind a public beginning), and {count} tokens written"
    : kept
      ? "to the token, and {count} tokens written"
      : "{count} tokens asked for, and nothing more";
  const length =
    written === null
      ? fact(t("How long it is"), t("not seen"), true)
      : fact(t("How long it is"), t(told, { count: written }));
  element("saw", HTMLElement).replaceChildren(
    ...fact(t("Who asks"), t("your address")),
    ...fact(t("When"), at?.toLocaleTimeString(language()) ?? t("when you ask")),
    ...fact(t("Which model"), model),
    ...fact(t("How many texts"), String(texts)),
    ...fact(t("What came"), sent ? came : t("nothing yet")),
    ...fact(t("Your text"), t("not seen"), true),
    ...length,
    ...fact(t("The answer"), t("not seen"), true),
  );
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
