/** A session: two threads and what they say, behind three functions. */
import { makeRing } from "./ring.js";
import type { Dial, SocketMessage, Order, Message, Told, Wish } from "./messages.js";

const RING_BYTES = 1 << 22;
const ENGINE = "tacita.wasm";
const PROTOCOL = "tacita.two-party";

export interface Session {
  /** context: of a question, else empty. */
  ask(text: string, context: string): void;
  /** Has a text written: its tokens are told as they come. */
  write?(prompt: string, wish: Wish): void;
  /** No further token of it. */
  enough?(): void;
  end(): void;
  /** At once, whatever is going on. */
  stop(): void;
}

/** A WebSocket of a page cannot carry headers: the access token goes as a subprotocol of its own, in
 * base64url, since names of subprotocols have few characters. The server chooses the other one. */
export function protocolsOf(token: string): string[] {
  if (!token) return [];
  const coded = btoa(String.fromCharCode(...new TextEncoder().encode(token)));
  const safe = coded.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return [PROTOCOL, `tacita.bearer.${safe}`];
}

export function socketUrl(page: string, model: string): string {
  const url = new URL("/v1/two-party", page);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("model", model);
  return url.href;
}

/** Opens a session. tell: called with everything that happens, until it ends; of a text that was asked to end
 * with one more token. */
export function open(
  model: string,
  token: string,
  tell: (told: Message) => void,
): Session {
  const ring = makeRing(RING_BYTES);
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker("worker.js", { type: "module" });
  const socket = new Worker("socket.js", { type: "module" });
  const order = (what: Order, transfer: Transferable[] = []): void => worker.postMessage(what, transfer);
  let opened = false;
  let ended = false;
  let turns = 0; // texts so far
  let turn = 0; // of the text that is under way
  let ending = false; // whether its next token is the last that is wanted
  const stop = (): void => {
    ended = true;
    worker.terminate();
    socket.terminate();
  };
  const begin = (): number => {
    ending = false;
    turns += 1;
    return (turn = turns);
  };
  worker.addEventListener("message", ({ data: { turn: from, message } }: MessageEvent<Told>) => {
    if (ended || (from !== 0 && from !== turn)) return; // late: what is under way now is another text
    if (ending && message.kind === "written") turn = 0;
    tell(message);
  });
  worker.addEventListener("error", () => {
    const message = "the engine cannot be loaded; reload the page";
    if (!ended) tell({ kind: "failed", message, again: false });
  });
  socket.addEventListener("message", ({ data }: MessageEvent<SocketMessage>) => {
    if (data.kind === "passed") return void (ended || tell(data));
    if (data.kind === "open") opened = true;
    else if (ended) stop();
    else if (opened) tell({ kind: "closed" });
    else {
      stop();
      const message = "the server does not let this page connect: is the token right, the server full?";
      tell({ kind: "failed", message, again: false });
    }
  });
  const url = socketUrl(location.href, model);
  const dial: Dial = { url, protocols: protocolsOf(token), ring, port: port1 };
  socket.postMessage(dial, [port1]);
  const engine = new URL(ENGINE, location.href).href;
  order({ kind: "open", ring, port: port2, engine }, [port2]);
  const enough = (): void => {
    ending = true;
    order({ kind: "enough", turn });
  };
  const end = (): void => {
    ended = true;
    order({ kind: "end" });
  };
  return {
    ask: (text, context) => order({ kind: "ask", turn: begin(), text, context }),
    write: (prompt, wish) => order({ kind: "write", turn: begin(), prompt, wish }),
    enough,
    end,
    stop,
  };
}
