/** The thread that makes keys, encrypts and decrypts. The secret key is in its memory and nowhere else. */
import { Chunker } from "./chunks.js";
import { FilesEngine } from "./engine.js";
import type { EngineTold, FilesOrder, FilesTold } from "./told.js";

let engine: FilesEngine | undefined;
let sent: SharedArrayBuffer | undefined;
let chunker: Chunker | undefined;

function tell(told: FilesTold, transfer: ArrayBuffer[] = []): void {
  self.postMessage(told, transfer);
}

function heard(told: EngineTold): void {
  if (told.kind === "made") chunker?.finish(told.sha256);
  else tell(told);
}

function failed(error: unknown): void {
  const detail = error instanceof Error ? error.message : String(error);
  tell({ kind: "failed", message: `the engine failed: ${detail}; reload the page`, again: false });
}

function made(engine: FilesEngine, memory: SharedArrayBuffer): boolean {
  chunker = new Chunker(memory, (chunk) => tell(chunk, [chunk.bytes.buffer]));
  const done = engine.keys((bytes) => chunker?.push(bytes));
  chunker = undefined;
  return done;
}

function encrypted(engine: FilesEngine, text: string): boolean {
  const bytes = engine.encrypt(text);
  if (bytes) tell({ kind: "request", bytes }, [bytes.buffer]);
  return bytes !== null;
}

async function obeyed(order: FilesOrder): Promise<boolean> {
  if (order.kind === "open") {
    sent = order.sent;
    engine = await FilesEngine.load(fetch(order.engine), heard);
    return engine.open(order.parts, order.insecure);
  }
  if (!engine || !sent) return false;
  switch (order.kind) {
    case "check":
      return engine.check(order.text);
    case "keys":
      return made(engine, sent);
    case "encrypt":
      return encrypted(engine, order.text);
    case "decrypt":
      return engine.decrypt(order.response, order.receipt);
  }
}

self.addEventListener("message", (message: MessageEvent<FilesOrder>) => {
  obeyed(message.data)
    .then((done) => done && tell({ kind: "done" }))
    .catch(failed);
});
