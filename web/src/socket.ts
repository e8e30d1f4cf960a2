/** The thread with the WebSocket: bytes to and from the thread that computes, whatever that waits for. */
import { Writer } from "./ring.js";
import { SHOWN } from "./messages.js";
import type { Dial, SocketMessage, Out } from "./messages.js";

function tell(dialled: SocketMessage): void {
  self.postMessage(dialled);
}

const APART = 80; // milliseconds between two messages of one direction that are shown

/** Shows messages of both directions to the page, not all of them. */
function shower(): (out: boolean, bytes: ArrayBuffer) => void {
  const moved = { sent: 0, received: 0 };
  const last = [0, 0];
  return (out, bytes) => {
    moved[out ? "sent" : "received"] += bytes.byteLength;
    const now = performance.now();
    if (now - (last[Number(out)] ?? 0) < APART) return;
    last[Number(out)] = now;
    tell({ kind: "passed", out, tail: new Uint8Array(bytes.slice(-SHOWN)), ...moved });
  };
}

function dial({ url, protocols, ring, port }: Dial): void {
  const writer = new Writer(ring);
  const early: ArrayBuffer[] = [];
  const show = shower();
  const socket = new WebSocket(url, [...protocols]);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => {
    tell({ kind: "open" });
    for (const bytes of early.splice(0)) send(bytes);
  });
  const send = (bytes: ArrayBuffer): void => {
    show(true, bytes);
    socket.send(bytes);
  };
  socket.addEventListener("message", (message: MessageEvent<ArrayBuffer | string>) => {
    if (typeof message.data === "string") socket.close();
    else {
      show(false, message.data);
      writer.push(new Uint8Array(message.data));
    }
  });
  socket.addEventListener("close", (event) => {
    writer.close();
    tell({ kind: "closed", code: event.code });
  });
  port.onmessage = ({ data }: MessageEvent<Out>): void => {
    if (data === "room") writer.flush();
    else if (socket.readyState === WebSocket.CONNECTING) early.push(data);
    else if (socket.readyState === WebSocket.OPEN) send(data);
  };
}

self.addEventListener("message", (message: MessageEvent<Dial>) => dial(message.data), { once: true });
