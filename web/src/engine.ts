/** The engine: WebAssembly and the few functions that it asks of its host. */
import type { Filled } from "./ring.js";
import type { Told } from "./told.js";

/** A link that blocks. */
export interface Link {
  /** The bytes are the receiver's to keep. */
  send(bytes: Uint8Array<ArrayBuffer>): void;
  receive(target: Uint8Array): Filled;
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  tacita_room(length: number): number;
  tacita_greet(): number;
  tacita_classify(): number;
  tacita_end(): number;
}

const RANDOM_BYTES = 65536; // that a page may ask for at once
const UTF8 = new TextEncoder();

export class Engine {
  private constructor(private readonly exports: Exports) {}

  /** Loads the engine. tell: called from within the methods below. */
  static async load(code: Promise<Response> | BufferSource, link: Link, tell: (told: Told) => void): Promise<Engine> {
    let engine: Engine | undefined;
    const bytes = (at: number, length: number): Uint8Array<ArrayBuffer> =>
      new Uint8Array((engine as Engine).exports.memory.buffer as ArrayBuffer, at >>> 0, length >>> 0);
    const tacita = {
      send(at: number, length: number): number {
        link.send(bytes(at, length).slice());
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
      event(at: number, length: number): void {
        tell(JSON.parse(new TextDecoder().decode(bytes(at, length))) as Told);
      },
    };
    const { instance } = await (code instanceof Promise
      ? WebAssembly.instantiateStreaming(code, { tacita })
      : WebAssembly.instantiate(code, { tacita }));
    engine = new Engine(instance.exports as unknown as Exports);
    return engine;
  }

  /** Greets the server by its program. False when that failed, which was told. */
  greet(program: Uint8Array): boolean {
    this.put(program);
    return this.exports.tacita_greet() === 1;
  }

  /** Asks about a text; the answer is told. False when that failed, which was told. */
  classify(text: string): boolean {
    this.put(UTF8.encode(text));
    return this.exports.tacita_classify() === 1;
  }

  /** Says goodbye. */
  end(): void {
    this.exports.tacita_end();
  }

  private put(bytes: Uint8Array): void {
    const at = this.exports.tacita_room(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
  }
}
