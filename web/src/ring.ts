/** Bytes from one thread to another that waits for them: a ring in shared memory. */

const READ = 0; // bytes taken so far, modulo 2^32
const WRITE = 1; // bytes put so far, modulo 2^32
const CLOSED = 2; // 1: nothing follows
const FULL = 3; // 1: the writer waits for room
const TURN = 4; // changes with every byte put, and at the end: what a reader waits for
const HEAD_BYTES = 20;

export const DONE = 1;
export const ENDED = 0;
export const SILENT = -1;

export type Filled = typeof DONE | typeof ENDED | typeof SILENT;

/** A ring of `bytes`, a power of two. */
export function makeRing(bytes: number): SharedArrayBuffer {
  if (bytes < 2 || (bytes & (bytes - 1)) !== 0) throw new RangeError(`a ring of ${bytes} bytes`);
  return new SharedArrayBuffer(HEAD_BYTES + bytes);
}

class Ring {
  protected readonly state: Int32Array<SharedArrayBuffer>;
  protected readonly data: Uint8Array<SharedArrayBuffer>;

  constructor(memory: SharedArrayBuffer) {
    this.state = new Int32Array(memory, 0, HEAD_BYTES / 4);
    this.data = new Uint8Array(memory, HEAD_BYTES);
  }

  protected waiting(): number {
    return (Atomics.load(this.state, WRITE) - Atomics.load(this.state, READ)) >>> 0;
  }

  /** The longest run of bytes from a counter on that does not go round, up to `most`. */
  protected run(counter: number, most: number): Uint8Array<SharedArrayBuffer> {
    const at = (counter >>> 0) & (this.data.length - 1);
    return this.data.subarray(at, at + Math.min(most, this.data.length - at));
  }
}

/** The end that waits, in a worker. */
export class Reader extends Ring {
  /** roomy: called when the writer waited for room and there is some. silence: milliseconds that a wait may take. */
  constructor(
    memory: SharedArrayBuffer,
    private readonly roomy: () => void,
    private readonly silence: number,
  ) {
    super(memory);
  }

  /** Waits until all of `target` is filled. */
  fill(target: Uint8Array): Filled {
    let filled = 0;
    while (filled < target.length) {
      const waiting = this.waiting();
      if (waiting === 0) {
        const state = this.awaited();
        if (state !== DONE) return state;
        continue;
      }
      const read = Atomics.load(this.state, READ);
      const piece = this.run(read, Math.min(waiting, target.length - filled));
      target.set(piece, filled);
      filled += piece.length;
      Atomics.store(this.state, READ, (read + piece.length) | 0);
      if (Atomics.exchange(this.state, FULL, 0) === 1) this.roomy();
    }
    return DONE;
  }

  private awaited(): Filled {
    const seen = Atomics.load(this.state, TURN);
    const closed = Atomics.load(this.state, CLOSED) === 1;
    if (this.waiting() > 0) return DONE;
    if (closed) return ENDED;
    return Atomics.wait(this.state, TURN, seen, this.silence) === "timed-out" ? SILENT : DONE;
  }
}

/** The end that never waits: what finds no room is kept until `flush`. */
export class Writer extends Ring {
  private kept: Uint8Array[] = [];
  private closing = false;

  push(bytes: Uint8Array): void {
    if (bytes.length > 0) this.kept.push(bytes);
    this.flush();
  }

  /** Nothing follows; what is kept still goes out. */
  close(): void {
    this.closing = true;
    this.flush();
  }

  /** Puts what there is room for. */
  flush(): void {
    while (this.kept.length > 0) {
      const first = this.kept[0] as Uint8Array;
      const put = this.put(first);
      if (put < first.length) {
        this.kept[0] = first.subarray(put);
        Atomics.store(this.state, FULL, 1);
        if (this.waiting() === this.data.length) return;
      } else {
        this.kept.shift();
      }
    }
    if (this.closing) {
      Atomics.store(this.state, CLOSED, 1);
      this.wake();
    }
  }

  private wake(): void {
    Atomics.add(this.state, TURN, 1);
    Atomics.notify(this.state, TURN);
  }

  private put(bytes: Uint8Array): number {
    let done = 0;
    while (done < bytes.length) {
      const room = this.data.length - this.waiting();
      if (room === 0) break;
      const write = Atomics.load(this.state, WRITE);
      const place = this.run(write, Math.min(room, bytes.length - done));
      place.set(bytes.subarray(done, done + place.length));
      done += place.length;
      Atomics.store(this.state, WRITE, (write + place.length) | 0);
      this.wake();
    }
    return done;
  }
}
