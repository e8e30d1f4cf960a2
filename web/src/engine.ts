/** The engine of a session of two parties. */
import { Host } from "./host.js";
import type { Link } from "./host.js";
import type { Told } from "./told.js";

interface Exports {
  tacita_greet(): number;
  tacita_classify(): number;
  tacita_end(): number;
}

const UTF8 = new TextEncoder();

export class Engine {
  private constructor(private readonly host: Host<Exports>) {}

  /** Loads the engine. tell: called from within the methods below. */
  static async load(
    code: Promise<Response> | BufferSource,
    link: Link,
    tell: (told: Told) => void,
  ): Promise<Engine> {
    return new Engine(await Host.load<Exports>(code, link, tell));
  }

  /** Greets the server by its program. False when that failed, which was told. */
  greet(program: Uint8Array): boolean {
    this.host.put(program);
    return this.host.exports.tacita_greet() === 1;
  }

  /** Asks about a text; the answer is told. False when that failed, which was told. */
  classify(text: string): boolean {
    this.host.put(UTF8.encode(text));
    return this.host.exports.tacita_classify() === 1;
  }

  /** Says goodbye. */
  end(): void {
    this.host.exports.tacita_end();
  }
}
