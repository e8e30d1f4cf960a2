/** The thread that computes: it may wait for the server, as the page's own thread may not. */
import { Engine } from "./engine.js";
import { linkOver } from "./link.js";
import type { Order, Message, Wish } from "./messages.js";

let engine: Engine | undefined;
let stopped = false; // whether no further token is wanted of the text that is written

function tell(told: Message): void {
  self.postMessage(told);
}

function failed(error: unknown): void {
  const detail = error instanceof Error ? error.message : String(error);
  tell({ kind: "failed", message: `the engine failed: ${detail}; reload the page`, again: false });
}

/** Token by token; between two of them an order to stop is heard. */
async function write(prompt: string, wish: Wish): Promise<void> {
  stopped = false;
  let more = engine?.write(prompt, wish) ?? false;
  while (more && !stopped) {
    await new Promise((resume) => setTimeout(resume));
    more = !stopped && (engine?.next() ?? false);
  }
  if (stopped) engine?.enough();
}

async function obey(order: Order): Promise<void> {
  switch (order.kind) {
    case "open":
      engine = await Engine.load(fetch(order.engine), linkOver(order.port, order.ring), tell);
      engine.greet();
      break;
    case "ask":
      engine?.classify(order.text, order.context);
      break;
    case "write":
      await write(order.prompt, order.wish);
      break;
    case "enough":
      stopped = true;
      break;
    case "end":
      engine?.end();
      self.close();
  }
}

self.addEventListener("message", (message: MessageEvent<Order>) => {
  obey(message.data).catch(failed);
});
