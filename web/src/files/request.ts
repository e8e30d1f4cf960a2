/** A request at the server: sent, watched until it ends, its response fetched. */
import { request, body, call, pause, sha256 } from "../http.js";
import type { Status } from "./messages.js";

const MOST_RESPONSE = 256 << 20;
const MOST_LINE = 1 << 16;
const BETWEEN = 1000; // milliseconds between questions, where the stream of events breaks off
const TRIES = 4; // of a call that does not reach the server
const FINAL = ["done", "failed", "cancelled"];
const HANDLE = /^[0-9a-f]{32}$/;

/** Of a client. key: the id of its keys. text: handle of the text that a request is a row of, or empty. */
export interface Asking {
  readonly model: string;
  readonly scheme: string;
  readonly token: string;
  readonly key: string;
  readonly text: string;
  readonly signal: AbortSignal;
}

/** Begins a text whose rows the server keeps; its handle. What is asked twice is one text. */
export async function begin(asking: Asking): Promise<string> {
  const { model, scheme, key, token, signal } = asking;
  const query = new URLSearchParams({ model, scheme, key }).toString();
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  const sent = { method: "POST", headers, signal };
  const response = await again(asking, () => request(`/v1/texts?${query}`, token, sent));
  const { id } = (await response.json()) as { id: unknown };
  if (typeof id !== "string" || !HANDLE.test(id)) throw new Error("the server begins no text");
  return id;
}

/** Sends a request. The same one sent twice counts once. */
export async function post(asking: Asking, bytes: Uint8Array<ArrayBuffer>): Promise<Status> {
  const { model, scheme, key, text, token, signal } = asking;
  const query = new URLSearchParams({ model, scheme, key, ...(text && { text }) }).toString();
  const headers = {
    "Content-Type": "application/octet-stream",
    "Tacita-Sha256": await sha256(bytes),
    "Idempotency-Key": crypto.randomUUID(),
  };
  const sent = { method: "POST", headers, body: bytes, signal };
  const response = await again(asking, () => request(`/v1/requests?${query}`, token, sent));
  return (await response.json()) as Status;
}

/** The last status of a request; `tell` hears of all before it. */
export async function ended(asking: Asking, id: string, tell: (status: Status) => void): Promise<Status> {
  for (;;) {
    const streamed = await streamedEnd(asking, id, tell).catch(() => null);
    asking.signal.throwIfAborted();
    if (streamed) return streamed;
    const response = await again(asking, () => get(asking, `/v1/requests/${id}`));
    const status = (await response.json()) as Status;
    tell(status);
    if (FINAL.includes(status.state)) return status;
    await pause(BETWEEN, asking.signal);
  }
}

export async function fetchResponse(asking: Asking, id: string): Promise<ArrayBuffer> {
  const path = `/v1/requests/${id}/response`;
  return again(asking, async () => body(await get(asking, path), MOST_RESPONSE));
}

/** Removes what the server has of something, whether or not that succeeds: also while the page goes away. */
export function forget(path: string, token: string): Promise<unknown> {
  return call(path, token, { method: "DELETE", keepalive: true }).catch(() => null);
}

function get({ token, signal }: Asking, path: string): Promise<Response> {
  return request(path, token, { signal });
}

/** What is tried again where it did not reach the server. */
async function again<T>({ signal }: Asking, run: () => Promise<T>): Promise<T> {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await run();
    } catch (error) {
      if (signal.aborted || left === 1 || !(error instanceof TypeError)) throw error;
      await pause(BETWEEN, signal);
    }
  }
}

/** Null where the stream ends before the request does. */
async function streamedEnd(
  asking: Asking,
  id: string,
  tell: (status: Status) => void,
): Promise<Status | null> {
  const response = await get(asking, `/v1/requests/${id}/events`);
  if (!response.body) return null;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done || text.length > MOST_LINE) return null;
      const lines = (text + value).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines.filter((each) => each.startsWith("data:"))) {
        const status = JSON.parse(line.slice(5)) as Status;
        tell(status);
        if (FINAL.includes(status.state)) return status;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined); // a browser holds few connections to a server
  }
}
