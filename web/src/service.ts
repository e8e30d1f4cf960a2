/** What the page fetches of the service: the models, and the program of one. */

export interface Offer {
  readonly scheme: string;
  readonly connected: boolean;
  readonly tokens: number;
  readonly traffic_bytes: number;
  readonly seconds: number;
}

export interface Model {
  readonly name: string;
  readonly task: string;
  readonly labels: readonly string[];
  readonly offers: readonly Offer[];
}

export const SCHEME = "bumblebee";
const MOST_PROGRAM = 8 << 20;

async function fetched(path: string, token: string): Promise<Response> {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, credentials: "omit" });
  if (response.ok) return response;
  if (response.status === 401) throw new Error("the server asks for an access token");
  const problem: unknown = await response.json().catch(() => null);
  const detail = (problem as { detail?: unknown } | null)?.detail;
  throw new Error(typeof detail === "string" && detail ? detail : `the server answers ${response.status}`);
}

/** Models that a page can ask: by the protocol that needs no files. */
export async function models(token: string): Promise<Model[]> {
  const found = (await (await fetched("/v1/models", token)).json()) as { models: Model[] };
  return found.models.filter((model) => offerOf(model) !== undefined);
}

export function offerOf(model: Model): Offer | undefined {
  return model.offers.find((offer) => offer.scheme === SCHEME && offer.connected);
}

/** The client's steps, as public as the plan. */
export async function program(model: string, token: string): Promise<ArrayBuffer> {
  const path = `/v1/models/${encodeURIComponent(model)}/public/program.json?scheme=${SCHEME}`;
  const data = await (await fetched(path, token)).arrayBuffer();
  if (data.byteLength > MOST_PROGRAM) throw new Error("the server's program is too large");
  return data;
}
