/** The engine of ciphertexts: a client's steps, each false when it failed, which was told. */
import { ENDED } from "../ring.js";
import { Host } from "../host.js";
import type { Link } from "../host.js";
import type { Wish } from "../messages.js";
import type { EngineMessage } from "./messages.js";

interface Exports {
  files_give(part: number): number;
  files_open(insecure: number): number;
  files_check(first: number): number;
  files_keys(): number;
  files_encrypt(first: number): number;
  files_decrypt(): number;
  files_write(most: number, thousandths: number): number;
  files_next(): number;
  files_restart(): number;
  files_token(): number;
}

const RECEIPT = 3; // behind the parts of the client
const UTF8 = new TextEncoder();

export class FilesEngine {
  private constructor(
    private readonly host: Host<Exports>,
    private readonly out: { send: (bytes: Uint8Array<ArrayBuffer>) => void },
  ) {}

  /** Loads the engine. tell: called from within the methods below. */
  static async load(
    code: Promise<Response> | BufferSource,
    tell: (told: EngineMessage) => void,
  ): Promise<FilesEngine> {
    const out = { send: (_: Uint8Array<ArrayBuffer>): void => undefined };
    const link: Link = { send: (bytes) => out.send(bytes), receive: () => ENDED };
    return new FilesEngine(await Host.load<Exports>(code, link, tell), out);
  }

  /** parts: plan, tokenizer, tables. */
  open(parts: readonly ArrayBuffer[], insecure: boolean): boolean {
    parts.forEach((part, index) => this.give(index, new Uint8Array(part)));
    return this.host.exports.files_open(insecure ? 1 : 0) === 1;
  }

  /** Whether a text can be asked about. context: of a question, or the second of a pair; else empty. */
  check(text: string, context: string): boolean {
    return this.host.exports.files_check(this.host.putPair(text, context)) === 1;
  }

  /** Makes keys; send: called with their bytes, in order, which are there until it returns; it may wait. */
  keys(send: (bytes: Uint8Array<ArrayBuffer>) => void): boolean {
    this.out.send = send;
    return this.host.exports.files_keys() === 1;
  }

  /** The bytes of a request, or null. */
  encrypt(text: string, context: string): Uint8Array<ArrayBuffer> | null {
    const first = this.host.putPair(text, context);
    return this.request(() => this.host.exports.files_encrypt(first));
  }

  /** Begins a text behind a prompt. */
  write(prompt: string, { most, thousandths }: Wish): boolean {
    this.host.put(UTF8.encode(prompt));
    return this.host.exports.files_write(most, thousandths) === 1;
  }

  /** The bytes of a request for the next token of the text, or null. */
  next(): Uint8Array<ArrayBuffer> | null {
    return this.request(() => this.host.exports.files_next());
  }

  /** Has the text read anew, of which the server keeps no row any more. */
  restart(): boolean {
    return this.host.exports.files_restart() === 1;
  }

  /** receipt: JSON of one, with the signer's key. token: whether the response may have the next one of a
   * text. */
  decrypt(response: ArrayBuffer, receipt: string, token = false): boolean {
    this.give(RECEIPT, UTF8.encode(receipt));
    this.host.put(new Uint8Array(response));
    const { exports } = this.host;
    return (token ? exports.files_token() : exports.files_decrypt()) === 1;
  }

  private request(encrypt: () => number): Uint8Array<ArrayBuffer> | null {
    let request: Uint8Array<ArrayBuffer> | null = null;
    this.out.send = (bytes) => (request = bytes.slice());
    return encrypt() === 1 ? request : null;
  }

  private give(part: number, bytes: Uint8Array): void {
    this.host.put(bytes);
    this.host.exports.files_give(part);
  }
}
