/** Calls of the service's API, with its problems in words. */

export interface Sent extends Pick<RequestInit, "method" | "body" | "signal" | "keepalive"> {
  readonly headers?: Readonly<Record<string, string>>;
}

/** A failure that the same call will not get over. code: the server's word for it (`tacita.server.http`). */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code = "",
  ) {
    super(message);
  }
}

/** Whatever the server answers. Rejects where it cannot be reached. */
export function call(path: string, token: string, sent: Sent = {}): Promise<Response> {
  const authorization = token ? { Authorization: `Bearer ${token}` } : {};
  const headers = { ...authorization, ...sent.headers };
  return fetch(path, { ...sent, headers, credentials: "omit" });
}

/** As `call`. Rejects with `Refused` unless it succeeds. */
export async function request(path: string, token: string, sent: Sent = {}): Promise<Response> {
  const response = await call(path, token, sent);
  return response.ok ? response : Promise.reject(await refusal(response));
}

/** What the server's problem says. */
export async function refusal(response: Response): Promise<Refused> {
  if (response.status === 401) return new Refused("the server asks for an access token", 401);
  const problem: unknown = await response.json().catch(() => null);
  const { detail, code } = (problem ?? {}) as { detail?: unknown; code?: unknown };
  const said = typeof detail === "string" && detail ? detail : `the server answers ${response.status}`;
  return new Refused(said, response.status, typeof code === "string" ? code : "");
}

/** A body of at most so many bytes. */
export async function body(response: Response, most: number): Promise<ArrayBuffer> {
  const said = Number(response.headers.get("Content-Length") ?? 0);
  const data = said > most ? null : await response.arrayBuffer();
  if (data === null || data.byteLength > most) throw new Error("the server sends more than it should");
  return data;
}

export async function sha256(bytes: BufferSource): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Milliseconds that pass, or less when the signal aborts. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
