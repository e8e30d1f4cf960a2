/** The thread that computes: it may wait for the server, as the page's own thread may not. */
import { Engine } from "./engine.js";
import { linkOver } from "./link.js";
import type { Order, Told } from "./told.js";

let engine: Engine | undefined;

function tell(told: Told): void {
  self.postMessage(told);
}

function failed(error: unknown): void {
  const detail = error instanceof Error ? error.message : String(error);
  tell({ kind: "failed", message: `the engine failed: ${detail}; reload the page`, again: false });
}

async function obey(order: Order): Promise<void> {
  switch (order.kind) {
    case "open":
      engine = await Engine.load(fetch(order.engine), linkOver(order.port, order.ring), tell);
      engine.greet(new Uint8Array(order.program));
      break;
    case "ask":
      engine?.classify(order.text);
      break;
    case "end":
      engine?.end();
      self.close();
  }
}

self.addEventListener("message", (message: MessageEvent<Order>) => {
  obey(message.data).catch(failed);
});
