/** The engine of a session of two parties. */
import { Host } from "./host.js";
import type { Link } from "./host.js";
import type { Message, Wish } from "./messages.js";

interface Exports {
  tacita_greet(): number;
  tacita_classify(first: number): number;
  tacita_write(most: number, thousandths: number): number;
  tacita_next(): number;
  tacita_enough(): number;
  tacita_end(): number;
}

const UTF8 = new TextEncoder();

export class Engine {
  private last = true; // whether the text that was written last is over

  private constructor(private readonly host: Host<Exports>) {}

  /** Loads the engine. tell: called from within the methods below. */
  static async load(
    code: Promise<Response> | BufferSource,
    link: Link,
    tell: (told: Message) => void,
  ): Promise<Engine> {
    let made: Engine | undefined;
    const heard = (told: Message): void => {
      if (made && told.kind === "written") made.last = told.last;
      tell(told);
    };
    made = new Engine(await Host.load<Exports>(code, link, heard));
    return made;
  }

  /** Greets the server. False when that failed, which was told. */
  greet(): boolean {
    return this.host.exports.tacita_greet() === 1;
  }

  /** Asks about a text, or a question and its context; the answer is told. False when that failed, which was
   * told. */
  classify(text: string, context = ""): boolean {
    return this.host.exports.tacita_classify(this.host.putPair(text, context)) === 1;
  }

  /** Has a text written; its first token is told. False where no other follows, or that failed. */
  write(prompt: string, { most, thousandths }: Wish): boolean {
    this.host.put(UTF8.encode(prompt));
    return this.host.exports.tacita_write(most, thousandths) === 1 && !this.last;
  }

  /** The next token is told. False as of `write`. */
  next(): boolean {
    return this.host.exports.tacita_next() === 1 && !this.last;
  }

  /** Ends the text that is written. */
  enough(): void {
    this.host.exports.tacita_enough();
  }

  /** Says goodbye. */
  end(): void {
    this.host.exports.tacita_end();
  }
}
