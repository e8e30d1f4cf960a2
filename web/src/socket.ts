/** The thread with the WebSocket: bytes to and from the thread that computes, whatever that waits for. */
import { Writer } from "./ring.js";
import type { Dial, Dialled, Out } from "./told.js";

function tell(dialled: Dialled): void {
  self.postMessage(dialled);
}

function dial({ url, protocols, ring, port }: Dial): void {
  const writer = new Writer(ring);
  const early: ArrayBuffer[] = [];
  const socket = new WebSocket(url, [...protocols]);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => {
    tell({ kind: "open" });
    for (const bytes of early.splice(0)) socket.send(bytes);
  });
  socket.addEventListener("message", (message: MessageEvent<ArrayBuffer | string>) => {
    if (typeof message.data === "string") socket.close();
    else writer.push(new Uint8Array(message.data));
  });
  socket.addEventListener("close", (event) => {
    writer.close();
    tell({ kind: "closed", code: event.code });
  });
  port.onmessage = ({ data }: MessageEvent<Out>): void => {
    if (data === "room") writer.flush();
    else if (socket.readyState === WebSocket.CONNECTING) early.push(data);
    else if (socket.readyState === WebSocket.OPEN) socket.send(data);
  };
}

self.addEventListener("message", (message: MessageEvent<Dial>) => dial(message.data), { once: true });
