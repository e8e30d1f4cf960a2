/** The thread that makes keys, encrypts and decrypts. The secret key is in its memory and nowhere else. */
import { Chunker } from "./chunks.js";
import { FilesEngine } from "./engine.js";
import type { EngineMessage, FilesOrder, FilesMessage } from "./messages.js";

let engine: FilesEngine | undefined;
let sent: SharedArrayBuffer | undefined;
let chunker: Chunker | undefined;

function tell(told: FilesMessage, transfer: ArrayBuffer[] = []): void {
  self.postMessage(told, transfer);
}

function receive(told: EngineMessage): void {
  if (told.kind === "made") chunker?.finish(told.sha256);
  else tell(told);
}

function fail(error: unknown): void {
  const detail = error instanceof Error ? error.message : String(error);
  tell({ kind: "failed", message: `the engine failed: ${detail}; reload the page`, again: false });
}

function makeKeys(engine: FilesEngine, memory: SharedArrayBuffer): boolean {
  chunker = new Chunker(memory, (chunk) => tell(chunk, [chunk.bytes.buffer]));
  const done = engine.keys((bytes) => chunker?.push(bytes));
  chunker = undefined;
  return done;
}

function pass(bytes: Uint8Array<ArrayBuffer> | null): boolean {
  if (bytes) tell({ kind: "request", bytes }, [bytes.buffer]);
  return bytes !== null;
}

async function obey(order: FilesOrder): Promise<boolean> {
  if (order.kind === "open") {
    sent = order.sent;
    engine = await FilesEngine.load(fetch(order.engine), receive);
    return engine.open(order.parts, order.insecure);
  }
  if (!engine || !sent) return false;
  switch (order.kind) {
    case "check":
      return engine.check(order.text, order.context);
    case "keys":
      return makeKeys(engine, sent);
    case "encrypt":
      return pass(engine.encrypt(order.text, order.context));
    case "write":
      return engine.write(order.prompt, order.wish);
    case "next":
      return pass(engine.next());
    case "restart":
      return engine.restart();
    case "decrypt":
    case "token":
      return engine.decrypt(order.response, order.receipt, order.kind === "token");
  }
}

self.addEventListener("message", (message: MessageEvent<FilesOrder>) => {
  obey(message.data)
    .then((done) => done && tell({ kind: "done" }))
    .catch(fail);
});
