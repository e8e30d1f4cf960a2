/** Orders to the thread that computes, one after another. What ends a text is heard between two of its
 * tokens, every other order waits until the text is over. */
import type { Engine } from "./engine.js";
import type { Order, Message, Wish } from "./messages.js";

type Open = Extract<Order, { kind: "open" }>;
type Tell = (message: Message) => void;

export class Turns {
  private engine: Engine | undefined;
  private turn = 0; // of the text that is computed
  private over = 0; // the last turn of which no further token is wanted
  private orders = Promise.resolve();

  /** load: makes the engine; what it tells is told on, with the turn. close: called behind the last order. */
  constructor(
    private readonly load: (order: Open, tell: Tell) => Promise<Engine>,
    private readonly tell: (turn: number, message: Message) => void,
    private readonly close: () => void,
  ) {}

  /** Resolves once the order is carried out, or failed, which was told. */
  hear(order: Order): Promise<void> {
    if (order.kind === "enough" || order.kind === "end") {
      this.over = Math.max(this.over, order.kind === "end" ? Infinity : order.turn);
    }
    if (order.kind !== "enough") {
      this.orders = this.orders.then(() => this.obey(order)).catch((error: unknown) => this.fail(error));
    }
    return this.orders;
  }

  private async obey(order: Exclude<Order, { kind: "enough" }>): Promise<void> {
    this.turn = order.kind === "ask" || order.kind === "write" ? order.turn : 0;
    switch (order.kind) {
      case "open":
        this.engine = await this.load(order, (message) => this.tell(this.turn, message));
        this.engine.greet();
        break;
      case "ask":
        this.engine?.classify(order.text, order.context);
        break;
      case "write":
        if (this.engine) await this.write(this.engine, order.prompt, order.wish);
        break;
      case "end":
        this.engine?.end();
        this.close();
    }
  }

  /** Token by token. */
  private async write(engine: Engine, prompt: string, wish: Wish): Promise<void> {
    let more = engine.write(prompt, wish);
    while (more) {
      await new Promise((resume) => setTimeout(resume));
      if (this.over >= this.turn) return engine.enough();
      more = engine.next();
    }
  }

  private fail(error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error);
    const message = `the engine failed: ${detail}; reload the page`;
    this.tell(this.turn, { kind: "failed", message, again: false });
  }
}
