/** The computing thread's end of the link: bytes out as messages, bytes in from a ring that it waits for. */
import type { Link } from "./host.js";
import { Reader } from "./ring.js";
import type { Filled } from "./ring.js";
import type { Out } from "./messages.js";

// Of a message: half of what a server takes (`tacita.plans.wire`), which may count what a browser's
// compression adds.
const FRAME_BYTES = 1 << 19;
const SILENCE = 600_000; // milliseconds after which a server is given up

/** A port of the page's or of node's. */
interface Port {
  postMessage(message: Out, transfer: ArrayBuffer[]): void;
}

export function linkOver(port: Port, ring: SharedArrayBuffer): Link {
  const reader = new Reader(ring, () => port.postMessage("room", []), SILENCE);
  return {
    send(bytes: Uint8Array<ArrayBuffer>): void {
      for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
        const piece = bytes.slice(at, at + FRAME_BYTES);
        port.postMessage(piece.buffer, [piece.buffer]);
      }
    },
    receive: (target: Uint8Array): Filled => reader.fill(target),
  };
}
