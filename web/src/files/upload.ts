/** Keys to the server, piece by piece. A piece that got lost with its connection is sent again, from where
 * the server says that it stands. */
import { call, pause, refusal, sha256 } from "../http.js";
import { CHUNK_BYTES } from "./chunks.js";
import type { Chunk } from "./messages.js";
import type { Asking } from "./request.js";

const WAITS = [1000, 2000, 4000, 8000, 16_000]; // milliseconds before a piece is tried again
const FINAL = [400, 401, 403, 404, 411, 413, 422]; // statuses that trying again does not change

const UNTOUCHED = 8 * CHUNK_BYTES;

/** Where an upload goes. total: bytes of all pieces. */
export interface Upload extends Omit<Asking, "text"> {
  readonly plan: string;
  readonly total: number;
}

/** Sends a piece, however often that takes. Rejects where the server refuses it, or stays away. */
export async function send(upload: Upload, chunk: Chunk, waits: readonly number[] = WAITS): Promise<void> {
  const hash = await sha256(chunk.bytes);
  for (const wait of [...waits, null]) {
    const response = await put(upload, chunk, hash).catch(() => null);
    upload.signal.throwIfAborted();
    collectSoon();
    if (response?.ok) return;
    if (response && FINAL.includes(response.status)) throw await refusal(response);
    if (wait === null) throw response ? await refusal(response) : new Error("the server cannot be reached");
    await pause(wait, upload.signal);
    if (await arrived(upload, chunk)) return;
  }
}

/** Browsers keep their copy of a body until they collect garbage, and do not count it as a reason to.
 * What they count is an allocation, also of pages that nobody touches and that so take no memory. Without
 * this, 2 GB of keys took up to 2.5 GB in Chromium, with it 0.6. */
function collectSoon(): void {
  void new ArrayBuffer(UNTOUCHED);
}

function put(upload: Upload, chunk: Chunk, hash: string): Promise<Response> {
  const { begin, bytes, whole } = chunk;
  const query = new URLSearchParams({ model: upload.model, scheme: upload.scheme }).toString();
  return call(`/v1/keys/${upload.key}?${query}`, upload.token, {
    method: "PUT",
    headers: {
      "Content-Type": "application/octet-stream",
      "Content-Range": `bytes ${begin}-${begin + bytes.length - 1}/${upload.total}`,
      "Tacita-Sha256": hash,
      "Tacita-Plan": upload.plan,
      ...(whole ? { "Tacita-Whole-Sha256": whole } : {}),
    },
    body: bytes,
    signal: upload.signal,
  });
}

/** Whether a piece came after all. Rejects where the server stands at neither of its ends. */
async function arrived({ key, token, signal }: Upload, chunk: Chunk): Promise<boolean> {
  const response = await call(`/v1/keys/${key}`, token, { signal }).catch(() => null);
  if (!response?.ok) return false;
  const { received, complete } = (await response.json()) as { received: number; complete: boolean };
  if (complete || received === chunk.begin + chunk.bytes.length) return chunk.whole === null || complete;
  if (received !== chunk.begin) throw new Error("the server has lost a part of the keys; ask again");
  return false;
}
