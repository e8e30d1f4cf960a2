/** The thread that computes: it may wait for the server, as the page's own thread may not. */
import { Engine } from "./engine.js";
import { linkOver } from "./link.js";
import type { Order, Told } from "./messages.js";
import { Turns } from "./turns.js";

const turns = new Turns(
  (order, tell) => Engine.load(fetch(order.engine), linkOver(order.port, order.ring), tell),
  (turn, message) => self.postMessage({ turn, message } satisfies Told),
  () => self.close(),
);

self.addEventListener("message", (message: MessageEvent<Order>) => void turns.hear(message.data));
