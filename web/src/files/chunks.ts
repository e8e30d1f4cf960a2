/** Keys into pieces as they are made, never more of them in memory than the network takes. */
import type { Chunk } from "./messages.js";

export const CHUNK_BYTES = 8 << 20; // as `tacita.plans.wire` says
const AHEAD = 3; // pieces that wait to be sent, after which the maker waits too

/** Shared by the thread that makes and the one that sends: how many pieces were sent. */
export function makeCount(): SharedArrayBuffer {
  return new SharedArrayBuffer(4);
}

/** One more was sent. */
export function counted(memory: SharedArrayBuffer): void {
  const sent = new Int32Array(memory);
  Atomics.add(sent, 0, 1);
  Atomics.notify(sent, 0);
}

/** Cuts what it is given. A piece goes out once another byte is there, so that the last can bring the hash of
 * the whole. */
export class Chunker {
  private readonly sent: Int32Array<SharedArrayBuffer>;
  private readonly before: number;
  private piece = new Uint8Array(CHUNK_BYTES);
  private filled = 0;
  private begin = 0;
  private count = 0;

  constructor(
    memory: SharedArrayBuffer,
    private readonly give: (chunk: Chunk) => void,
    private readonly most = CHUNK_BYTES,
  ) {
    this.sent = new Int32Array(memory);
    this.before = Atomics.load(this.sent, 0);
  }

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.filled === this.most) this.out(null);
      const part = bytes.subarray(at, at + this.most - this.filled);
      this.piece.set(part, this.filled);
      this.filled += part.length;
      at += part.length;
    }
  }

  /** Nothing follows. whole: the hash of all. */
  finish(whole: string): void {
    this.out(whole);
  }

  private out(whole: string | null): void {
    const bytes = this.piece.subarray(0, this.filled);
    this.give({ kind: "chunk", begin: this.begin, bytes, whole });
    this.count += 1;
    this.begin += this.filled;
    this.filled = 0;
    this.piece = new Uint8Array(CHUNK_BYTES); // the other one has gone
    if (whole === null) this.awaitRoom();
  }

  private awaitRoom(): void {
    for (;;) {
      const sent = Atomics.load(this.sent, 0);
      if (this.count - ((sent - this.before) | 0) < AHEAD) return;
      Atomics.wait(this.sent, 0, sent);
    }
  }
}
