/** What the page fetches of the service: the models, and what they publish for their clients. */
import { request, body, sha256 } from "./http.js";

export interface Offer {
  readonly scheme: string;
  readonly plan: string;
  readonly connected: boolean;
  readonly tokens: number;
  readonly traffic_bytes: number;
  readonly seconds: number;
  readonly public: string | null;
  readonly keys_bytes: number;
  readonly request_bytes: number;
  readonly response_bytes: number;
  readonly keygen_seconds: number;
  /** Of a text that is written, behind the first token: of each further one. */
  readonly token_bytes: number;
  readonly token_seconds: number;
  /** Bytes of a text whose rows the server keeps; where it keeps none nothing is told. */
  readonly kept_bytes?: number;
  /** Where it is another than the model's. */
  readonly task?: string;
}

export interface Model {
  readonly name: string;
  readonly task: string;
  readonly labels: readonly string[];
  readonly offers: readonly Offer[];
}

/** signer: the key by which the server signs its answers. visitor: the token that a server that answers
 * everybody offers to a page without one. */
export interface Models {
  readonly signer: string;
  readonly visitor?: string;
  readonly models: readonly Model[];
}

export const CONNECTED = "bumblebee";
const SCHEMES = ["thor", CONNECTED]; // that a page can ask by
/** What a page does with a model. */
export type Kind = "classify" | "embed" | "tag" | "answer" | "fill" | "generate";
const KINDS: Readonly<Record<string, Kind>> = {
  tokens: "tag",
  span: "answer",
  words: "fill",
  next: "generate",
  choice: "generate", // the likeliest token alone
};
const MOST_PLAN = 8 << 20;
const MOST_LIST = 1 << 16;
const MOST_TOKENIZER = 64 << 20;
const MOST_TABLES = 256 << 20;

/** Models that a page can ask. */
export async function models(token: string): Promise<Models> {
  const response = await request("/v1/models", token);
  const found = (await response.json()) as Models;
  const visitor = response.headers.get("Tacita-Visitor-Token") ?? "";
  return { ...found, visitor, models: found.models.filter((model) => offersOf(model).length > 0) };
}

/** What a model is for; null where a page has no form for it. */
export function kindOf({ task, labels }: Model): Kind | null {
  if (task === "text") return labels.length ? "classify" : "embed";
  return KINDS[task] ?? null;
}

/** Whether the likeliest token alone is told of a text, so that no other can be drawn. */
export function choosesAlone({ task }: Model, offer: Offer): boolean {
  return (offer.task ?? task) === "choice";
}

/** Those that a page can ask by, connected ones first. */
export function offersOf(model: Model): Offer[] {
  const kind = kindOf(model);
  const known = model.offers.filter(({ scheme }) => kind !== null && SCHEMES.includes(scheme));
  return known.sort((a, b) => Number(b.connected) - Number(a.connected));
}

function published(model: string, offer: Offer, file = ""): string {
  return `/v1/models/${encodeURIComponent(model)}/public${file}?scheme=${offer.scheme}`;
}

/** What a client of ciphertexts is made of: the plan, the tokenizer, the tables. They are those that the
 * offer's hash stands for. */
export async function parts(model: string, offer: Offer, token: string): Promise<ArrayBuffer[]> {
  const get = async (file: string, most: number): Promise<ArrayBuffer> =>
    body(await request(published(model, offer, file), token), most);
  const files = await listed(await get("", MOST_LIST), offer);
  const named = async (file: string, most: number): Promise<ArrayBuffer> => {
    const data = await get(`/${file}`, most);
    if ((await sha256(data)) !== files[file]) throw new Error(`${file}: not what the server offers`);
    return data;
  };
  return Promise.all([
    named("plan.json", MOST_PLAN),
    named("tokenizer.json", MOST_TOKENIZER),
    named("embedding.safetensors", MOST_TABLES),
  ]);
}

/** The hashes in the list of a public folder (`tacita.plans.public_folder`), after its own was checked. */
async function listed(data: ArrayBuffer, offer: Offer): Promise<Readonly<Record<string, string>>> {
  const found = JSON.parse(new TextDecoder().decode(data)) as {
    format: string;
    version: number;
    files: Record<string, string>;
  };
  const files = Object.fromEntries(Object.entries(found.files).sort(([a], [b]) => (a < b ? -1 : 1)));
  const spelled = JSON.stringify({ files, format: found.format, version: found.version });
  const whole = await sha256(new TextEncoder().encode(spelled));
  if (whole !== offer.public) throw new Error("the public folder is not the one that the server offers");
  return files;
}
