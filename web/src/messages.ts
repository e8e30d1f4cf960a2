/** What happens, as the engine tells it (`crates/wasm/src/host.rs`) or the client of ciphertexts, and what
 * threads of two parties say to each other. "closed": the connection is, which the engine tells too if it was
 * computing. */

export interface Score {
  readonly label: string;
  readonly score: number;
}

/** A place in a text, from character start to before end, with its label. */
export interface Span extends Score {
  readonly start: number;
  readonly end: number;
}

/** One that failed its checks is not trusted, and has neither label, scores, logits nor spans. spans: of a
 * model that answers for every token; those of an answer to a question are places in its context, those of
 * a mask candidates for it. */
export interface Answer {
  readonly label: string | null;
  readonly scores: readonly Score[];
  readonly logits: readonly number[] | null;
  readonly spans?: readonly Span[];
  readonly warnings: readonly string[];
  readonly trusted: boolean;
}

export interface Ready {
  readonly kind: "ready";
  readonly name: string;
  readonly tokens: number;
  readonly labels: readonly string[];
  readonly writes: boolean;
  readonly layers: number;
}

/** Bytes both ways, and times that this side waited, of a session of two parties. */
export interface Cost {
  readonly sent: number;
  readonly received: number;
  readonly rounds: number | null;
}

/** A token of a text that is written: what it adds, and whether none follows. warning: of the keys, if there
 * is one. near: what might as well have come in the token's place. */
export interface Written extends Cost {
  readonly kind: "written";
  readonly text: string;
  readonly last: boolean;
  readonly warning?: string | null;
  readonly near?: readonly string[];
}

/** What is wished of a text: tokens at most, and a temperature in thousandths. */
export interface Wish {
  readonly most: number;
  readonly thousandths: number;
}

export interface Answered extends Cost {
  readonly kind: "answer";
  readonly answer: Answer;
}

/** Of a request at the server. left: seconds, where the server says. */
export interface Evaluated {
  readonly kind: "evaluated";
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  readonly left: number | null;
}

export const SHOWN = 32; // bytes of a message that are shown

/** A message that went out or came in, one of those that are shown. tail: its last bytes. sent, received: of
 * the session so far. */
export interface Passed {
  readonly kind: "passed";
  readonly out: boolean;
  readonly tail: Uint8Array;
  readonly sent: number;
  readonly received: number;
}

/** again: whether the session goes on, since nothing was sent. */
export interface Failed {
  readonly kind: "failed";
  readonly message: string;
  readonly again: boolean;
}

export type Message =
  | { readonly kind: "loaded"; readonly done: number; readonly total: number }
  | { readonly kind: "node"; readonly name: string }
  | { readonly kind: "uploaded"; readonly done: number; readonly total: number; readonly left: number }
  | Evaluated
  | Ready
  | Answered
  | Written
  | Passed
  | Failed
  | { readonly kind: "closed" };

/** From the page to the worker that computes. port: to the worker with the socket. turn: a number for each
 * text, from 1 on. */
export type Order =
  | {
      readonly kind: "open";
      readonly ring: SharedArrayBuffer;
      readonly port: MessagePort;
      readonly engine: string;
    }
  | { readonly kind: "ask"; readonly turn: number; readonly text: string; readonly context: string }
  | { readonly kind: "write"; readonly turn: number; readonly prompt: string; readonly wish: Wish }
  | { readonly kind: "enough"; readonly turn: number }
  | { readonly kind: "end" };

/** From the worker that computes. turn: of the text that this is of, 0 of none. */
export interface Told {
  readonly turn: number;
  readonly message: Message;
}

/** From the page to the worker with the socket. port: to the worker that computes. */
export interface Dial {
  readonly url: string;
  readonly protocols: readonly string[];
  readonly ring: SharedArrayBuffer;
  readonly port: MessagePort;
}

/** From the worker that computes to the one with the socket: bytes to send, or that there is room again. */
export type Out = ArrayBuffer | "room";

export type SocketMessage =
  | Passed
  | { readonly kind: "open" }
  | { readonly kind: "closed"; readonly code: number };
