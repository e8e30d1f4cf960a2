/** The engine's code, loaded, and the few functions that it asks of its host. */
import type { Filled } from "./ring.js";

/** What the engine's bytes go to, and come from. */
export interface Link {
  /** The bytes are there until it returns. */
  send(bytes: Uint8Array<ArrayBuffer>): void;
  receive(target: Uint8Array): Filled;
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  tacita_room(length: number): number;
}

const UTF8 = new TextEncoder();
const RANDOM_BYTES = 65536; // that a page may ask for at once

/** E: the functions that are called of it. */
export class Host<E> {
  private constructor(readonly exports: E & Exports) {}

  /** Loads the engine. tell: called from within its functions, with objects of the engine's own making. */
  static async load<E>(
    code: Promise<Response> | BufferSource,
    link: Link,
    tell: (told: never) => void,
  ): Promise<Host<E>> {
    let host: Host<E> | undefined;
    const bytes = (at: number, length: number): Uint8Array<ArrayBuffer> =>
      new Uint8Array((host as Host<E>).exports.memory.buffer as ArrayBuffer, at >>> 0, length >>> 0);
    const tacita = {
      send(at: number, length: number): number {
        link.send(bytes(at, length));
        return 1;
      },
      receive: (at: number, length: number): Filled => link.receive(bytes(at, length)),
      random(at: number, length: number): number {
        const target = bytes(at, length);
        for (let i = 0; i < target.length; i += RANDOM_BYTES) {
          crypto.getRandomValues(target.subarray(i, i + RANDOM_BYTES));
        }
        return 1;
      },
      now: (): number => performance.now(),
      event(at: number, length: number): void {
        tell(JSON.parse(new TextDecoder().decode(bytes(at, length))) as never);
      },
    };
    const { instance } = await (code instanceof Promise
      ? WebAssembly.instantiateStreaming(code, { tacita })
      : WebAssembly.instantiate(code, { tacita }));
    host = new Host(instance.exports as unknown as E & Exports);
    return host;
  }

  /** Puts a text there, or a pair where the second is not empty: then the bytes of the first, else 0. */
  putPair(text: string, second: string): number {
    this.put(UTF8.encode(text + second));
    return second ? UTF8.encode(text).length : 0;
  }

  /** Puts bytes where the engine's next function takes them from. */
  put(bytes: Uint8Array): void {
    const at = this.exports.tacita_room(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
  }
}
