// Asks a server over plain TCP, in node: node ask.mjs PARTS ENGINE.wasm.br PORT TEXT... With WRITE=TOKENS the
// texts are prompts, behind which so many tokens are written, and STOP=NUMBER ends each behind so many. With
// CONTEXT=TEXT they are questions about it.
// Prints one line of JSON for everything that is told. The threads are those of the page, but for the socket.
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { isMainThread, MessageChannel, parentPort, Worker, workerData } from "node:worker_threads";

const part = (folder, name) => import(pathToFileURL(resolve(join(folder, `${name}.js`))).href);

async function compute({ parts, engine, texts, ring, port }) {
  const { Engine } = await part(parts, "engine");
  const { linkOver } = await part(parts, "link");
  const tell = (told) => parentPort.postMessage({ ...told, at: performance.now() });
  const made = await Engine.load(brotliDecompressSync(readFileSync(engine)), linkOver(port, ring), tell);
  const most = Number(process.env.WRITE ?? 0);
  const write = (text) => {
    let left = Number(process.env.STOP ?? most) - 1;
    let more = made.write(text, { most, thousandths: 0 });
    for (; more && left > 0; left--) more = made.next();
    if (more) made.enough();
  };
  if (made.greet()) {
    for (const text of texts) most ? write(text) : made.classify(text, process.env.CONTEXT);
    made.end();
  }
  port.close();
}

async function main([parts, engine, number, ...texts]) {
  const { makeRing, Writer } = await part(parts, "ring");
  const ring = makeRing(1 << 16); // small, so that it goes round and fills
  const { port1, port2 } = new MessageChannel();
  const writer = new Writer(ring);
  const socket = connect({ port: Number(number), host: "127.0.0.1", noDelay: true });
  socket.on("data", (bytes) => writer.push(new Uint8Array(bytes)));
  socket.on("close", () => writer.close());
  socket.on("error", () => writer.close());
  port1.on("message", (out) => (out === "room" ? writer.flush() : socket.write(new Uint8Array(out))));
  port1.on("close", () => socket.end());
  const data = { parts, engine, texts, ring, port: port2 };
  const worker = new Worker(new URL(import.meta.url), { workerData: data, transferList: [port2] });
  worker.on("message", (told) => console.log(JSON.stringify(told)));
  worker.on("error", (error) => {
    console.log(JSON.stringify({ kind: "failed", message: String(error), again: false }));
    process.exit(1);
  });
}

await (isMainThread ? main(process.argv.slice(2)) : compute(workerData));
