/** A client of ciphertexts: keys once, then texts, each in a request of its own. */
import { Refused } from "../http.js";
import { t } from "../language.js";
import { parts } from "../service.js";
import type { Offer } from "../service.js";
import type { Session } from "../session.js";
import type { Answer, Cost, Message, Wish } from "../messages.js";
import { SHOWN } from "../messages.js";
import { counted, makeCount } from "./chunks.js";
import { begin, ended, fetchResponse, forget, post } from "./request.js";
import type { Asking } from "./request.js";
import { Failure, Thread } from "./thread.js";
import type { Chunk, FilesMessage, FilesOrder, Status, Token } from "./messages.js";
import { send } from "./upload.js";

const ENGINE = "tacita.wasm";
const LOST = [404, 409, 410, 412]; // of a request: the server has lost the keys
const NO_TEXT = "no-text"; // code of a problem: it has lost the text
const FULL = "the server keeps no further text of yours: stop one on another page, or ask later";

/** What is asked, and of whom. signer: the key of the server's receipts. insecure: whether parameters for
 * tests are admitted. */
export interface Place {
  readonly model: string;
  readonly offer: Offer;
  readonly token: string;
  readonly signer: string;
  readonly insecure: boolean;
}

/** tell: called with everything that happens. */
export function openFiles(place: Place, tell: (told: Message) => void): Session {
  const client = new FilesClient(place, tell);
  const failed = (error: unknown): void => client.failed(error);
  client.open().catch(failed);
  const stop = (): void => client.stop();
  return {
    ask: (text, context) => void client.ask(text, context).catch(failed),
    write: (prompt, wish) => void client.write(prompt, wish).catch(failed),
    enough: () => client.enough(),
    end: stop,
    stop,
  };
}

class FilesClient {
  private readonly aborter = new AbortController();
  private readonly thread = new Thread((told) => this.heard(told));
  private readonly sentPieces = makeCount();
  private total = 0; // bytes of the keys
  private key = ""; // their id
  private ready = false; // whether the server has them
  private uploads: Promise<void> = Promise.resolve();
  private began = 0;
  private request: Uint8Array<ArrayBuffer> | undefined;
  private running = ""; // id of the request that is at the server
  private text = ""; // handle of the text whose rows the server keeps
  private answer: Answer | undefined;
  private token: Token | undefined;
  private stopped = false; // whether no further token is wanted of the text that is written
  private sent = 0;
  private received = 0;

  constructor(
    private readonly place: Place,
    private readonly told: (told: Message) => void,
  ) {}

  /** Nothing is told of a client that was stopped. */
  private tell(told: Message): void {
    if (!this.aborter.signal.aborted) this.told(told);
  }

  async open(): Promise<void> {
    const { model, offer, token, insecure } = this.place;
    this.say("loading the public part of the model");
    const found = await parts(model, offer, token);
    this.received += found.reduce((sum, part) => sum + part.byteLength, 0);
    const engine = new URL(ENGINE, location.href).href;
    const order = { kind: "open", engine, parts: found, sent: this.sentPieces, insecure } as const;
    await this.thread.order(order, found);
    this.tell({ kind: "ready", name: model, tokens: offer.tokens, labels: [], writes: false, layers: 0 });
  }

  async ask(text: string, context: string): Promise<void> {
    await this.thread.order({ kind: "check", text, context });
    await this.exchange({ kind: "encrypt", text, context }, "decrypt");
    const answer = this.answer as Answer;
    this.tell({ kind: "answer", answer, ...this.cost() });
  }

  /** Token by token, each by a request of the text so far, or of a row where the server keeps the others. */
  async write(prompt: string, wish: Wish): Promise<void> {
    this.stopped = false;
    await this.thread.order({ kind: "write", prompt, wish });
    try {
      for (let more = true; more; ) {
        const token = await this.nextToken();
        more = !token.last && !this.stopped;
        if (!more) await this.endText();
        this.tell({ ...token, kind: "written", ...this.cost() });
        more &&= !this.stopped;
      }
    } finally {
      await this.endText();
    }
  }

  /** The next token, behind all rows that the server has not read. A text that it lost is read anew, once. */
  private async nextToken(): Promise<Token> {
    for (let lost = false; ; ) {
      try {
        await this.beginText();
        await this.exchange({ kind: "next" }, "token");
        const { token } = this;
        this.token = undefined;
        if (token) return token;
      } catch (error) {
        if (lost || !(error instanceof Refused && error.code === NO_TEXT)) throw error;
        lost = true;
        this.text = "";
        await this.thread.order({ kind: "restart" });
      }
    }
  }

  /** Has the server keep a text, where it does and has none of this client. */
  private async beginText(): Promise<void> {
    if (this.text || !this.place.offer.kept_bytes) return;
    if (!this.ready) await this.makeKeys();
    this.text = await begin(this.asking()).catch((error: unknown) => {
      const full = error instanceof Refused && error.code === "quota";
      return full ? Promise.reject(new Failure(FULL, true)) : this.posted(error);
    });
  }

  /** Has the server drop the rows of the text, if it keeps any. */
  private async endText(): Promise<void> {
    const { text, key } = this;
    this.text = "";
    if (text) await forget(`/v1/texts/${text}?key=${key}`, this.place.token);
  }

  enough(): void {
    this.stopped = true;
  }

  /** Encrypts, has the server compute and decrypts what it gives. */
  private async exchange(encrypt: FilesOrder, decrypt: "decrypt" | "token"): Promise<void> {
    if (!this.ready) await this.makeKeys();
    this.say("encrypting");
    await this.thread.order(encrypt);
    const request = this.request as Uint8Array<ArrayBuffer>;
    this.request = undefined;
    this.say("sending the request");
    this.pass(true, request);
    const { id } = await post(this.asking(), request).catch((error: unknown) => this.posted(error));
    this.sent += request.length;
    this.running = id;
    await this.answered(id, decrypt);
  }

  failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.tell({ kind: "failed", message, again: error instanceof Failure ? error.again : this.ready });
  }

  /** What the server has of this client goes too. */
  stop(): void {
    const { token } = this.place;
    this.aborter.abort();
    this.thread.stop();
    const gone = this.running ? forget(`/v1/requests/${this.running}`, token) : Promise.resolve();
    if (this.key) void gone.then(() => forget(`/v1/keys/${this.key}`, token));
  }

  private heard(told: FilesMessage): void {
    switch (told.kind) {
      case "open":
        this.total = told.keys;
        break;
      case "key":
        this.key = told.id;
        this.uploads = Promise.resolve();
        break;
      case "chunk":
        this.uploads = this.uploads.then(() => this.upload(told));
        this.uploads.catch((error: unknown) => this.uploadFailed(error));
        break;
      case "request":
        this.request = told.bytes;
        break;
      case "read":
        this.answer = told.answer;
        break;
      case "token":
        this.token = told;
    }
  }

  private async makeKeys(): Promise<void> {
    this.began = performance.now();
    this.say("making keys and sending them");
    const broken = new Promise<void>((_, reject) => {
      this.uploadFailed = reject;
    });
    await Promise.race([this.thread.order({ kind: "keys" }), broken]);
    await this.uploads;
    this.ready = true;
  }

  private uploadFailed: (error: unknown) => void = () => undefined;

  private async upload(chunk: Chunk): Promise<void> {
    await send({ ...this.asking(), plan: this.place.offer.plan, total: this.total }, chunk);
    const { length } = chunk.bytes;
    this.sent += length;
    this.pass(true, chunk.bytes);
    counted(this.sentPieces);
    const done = chunk.begin + length;
    const left = ((performance.now() - this.began) * (this.total - done)) / done;
    this.tell({ kind: "uploaded", done, total: this.total, left });
  }

  private posted(error: unknown): never {
    if (error instanceof Refused && LOST.includes(error.status) && error.code !== NO_TEXT) {
      this.ready = false;
      throw new Failure("the server has no longer this page's keys: ask again, new ones are made", true);
    }
    throw error;
  }

  private async answered(id: string, decrypt: "decrypt" | "token"): Promise<void> {
    const { signer, token } = this.place;
    const status = await ended(this.asking(), id, (each) => this.watched(each));
    const { receipt, problem } = status;
    if (problem?.code === NO_TEXT) throw new Refused(problem.detail ?? problem.title, 410, NO_TEXT);
    if (status.state !== "done" || !receipt) {
      throw new Failure(problem?.detail || problem?.title || `the request was ${status.state}`, true);
    }
    const response = await fetchResponse(this.asking(), id);
    this.received += response.byteLength;
    this.pass(false, new Uint8Array(response));
    this.say("checking the answer's receipt and decrypting");
    const signed = JSON.stringify({ ...receipt, signer });
    await this.thread.order({ kind: decrypt, response, receipt: signed }, [response]);
    this.running = "";
    void forget(`/v1/requests/${id}`, token);
  }

  private watched(status: Status): void {
    if (status.state === "waiting") {
      this.say(t("waiting: {count} requests before this one", { count: status.place ?? 0 }));
    }
    if (status.state !== "running") return;
    const stage = status.stage ?? "begins";
    const { done, total, seconds_left } = status;
    this.tell({ kind: "evaluated", stage, done: done ?? 0, total: total ?? 0, left: seconds_left ?? null });
  }

  private asking(): Asking {
    const { model, offer, token } = this.place;
    const { key, text, aborter } = this;
    return { model, scheme: offer.scheme, token, key, text, signal: aborter.signal };
  }

  private cost(): Cost {
    return { sent: this.sent, received: this.received, rounds: null };
  }

  /** Shows the last bytes of what goes out or came in. */
  private pass(out: boolean, bytes: Uint8Array): void {
    const { sent, received } = this;
    this.tell({ kind: "passed", out, tail: bytes.slice(-SHOWN), sent, received });
  }

  private say(words: string): void {
    this.tell({ kind: "node", name: words });
  }
}
