/** Numbers and steps in words. */

export function bytes(count: number): string {
  if (count < 1000) return `${count} bytes`;
  return count < 1e6 ? `${(count / 1e3).toFixed(0)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

export function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)} s`;
}

export function percent(score: number): string {
  return `${(100 * score).toFixed(1)} %`;
}

/** "layer0.feed_forward" -> "layer 1: feed forward". */
export function step(node: string): string {
  if (node === "set-up") return "making keys, once a session";
  const match = /^layer(\d+)\.(.+)$/.exec(node);
  const name = (match?.[2] ?? node).replace(/[._]/g, " ");
  return match ? `layer ${Number(match[1]) + 1}: ${name}` : name;
}
