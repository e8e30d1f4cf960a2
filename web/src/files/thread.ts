/** The thread of a client of ciphertexts, behind orders that resolve once they are carried out. */
import type { FilesOrder, FilesMessage } from "./messages.js";

/** again: whether another order may succeed. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly again: boolean,
  ) {
    super(message);
  }
}

type Ended = { resolve: () => void; reject: (error: Error) => void };

export class Thread {
  private readonly worker = new Worker("files.js", { type: "module" });
  private ending: Ended | undefined;

  /** tell: called with everything but the ends of orders. */
  constructor(tell: (told: FilesMessage) => void) {
    this.worker.addEventListener("message", ({ data }: MessageEvent<FilesMessage>) => {
      if (data.kind === "done") this.ending?.resolve();
      else if (data.kind === "failed") this.ending?.reject(new Failure(data.message, data.again));
      else tell(data);
    });
    this.worker.addEventListener("error", () => {
      this.ending?.reject(new Failure("the engine cannot be loaded; reload the page", false));
    });
  }

  /** One at a time. Rejects with `Failure`. */
  order(what: FilesOrder, transfer: Transferable[] = []): Promise<void> {
    return new Promise((resolve, reject) => {
      this.ending = { resolve, reject };
      this.worker.postMessage(what, transfer);
    });
  }

  /** At once. */
  stop(): void {
    this.worker.terminate();
    this.ending?.reject(new Failure("stopped", false));
  }
}
