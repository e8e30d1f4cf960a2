/** What the client of ciphertexts tells (`crates/wasm/src/host/files.rs`), and what its thread and the page
 * say to each other. */
import type { Answer, Failed, Wish, Written } from "../messages.js";

/** A token of a text that is written. None is told of a row before the last one. */
export interface Token extends Required<Pick<Written, "text" | "last" | "near" | "warning">> {
  readonly kind: "token";
}

/** From the engine. keys: bytes of the evaluation keys. security: bits. */
export type EngineMessage =
  | { readonly kind: "open"; readonly tokens: number; readonly security: number; readonly keys: number }
  | { readonly kind: "key"; readonly id: string }
  | { readonly kind: "made"; readonly sha256: string }
  | { readonly kind: "read"; readonly answer: Answer }
  | Token
  | Failed;

/** A piece of the keys' file. whole: the hash of all of it, known with the last piece. */
export interface Chunk {
  readonly kind: "chunk";
  readonly begin: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly whole: string | null;
}

/** From the thread. "done": the order is carried out. */
export type FilesMessage =
  | EngineMessage
  | Chunk
  | { readonly kind: "request"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "done" };

/** To the thread. parts: plan, tokenizer, tables. sent: see `Chunker`. */
export type FilesOrder =
  | {
      readonly kind: "open";
      readonly engine: string;
      readonly parts: readonly ArrayBuffer[];
      readonly sent: SharedArrayBuffer;
      readonly insecure: boolean;
    }
  | { readonly kind: "check"; readonly text: string; readonly context: string }
  | { readonly kind: "keys" }
  | { readonly kind: "encrypt"; readonly text: string; readonly context: string }
  | { readonly kind: "write"; readonly prompt: string; readonly wish: Wish }
  | { readonly kind: "next" | "restart" }
  | { readonly kind: "decrypt" | "token"; readonly response: ArrayBuffer; readonly receipt: string };

/** Of an Ed25519 signature over three hashes; all in hexadecimal digits. */
export interface Receipt {
  readonly plan: string;
  readonly request: string;
  readonly response: string;
  readonly signature: string;
}

/** Of a request: `tacita.plans.wire.Status`. */
export interface Status {
  readonly id: string;
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  readonly place?: number | null;
  readonly stage?: string | null;
  readonly done?: number | null;
  readonly total?: number | null;
  readonly seconds_left?: number | null;
  readonly seconds?: number | null;
  readonly problem?: { readonly title: string; readonly detail?: string; readonly code?: string } | null;
  readonly response_bytes?: number | null;
  readonly receipt?: Receipt | null;
}
