/** Numbers and steps in words. */

export function bytes(count: number): string {
  if (count < 1000) return `${count} bytes`;
  if (count < 1e6) return `${(count / 1e3).toFixed(0)} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(2)} GB`;
}

export function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)} s`;
}

/** A duration that nobody reads to the second: "40 s", "4 min". */
export function about(milliseconds: number): string {
  const whole = Math.ceil(milliseconds / 1000);
  return whole < 90 ? `${whole} s` : `${Math.ceil(whole / 60)} min`;
}

export function percent(score: number): string {
  return `${(100 * score).toFixed(1)} %`;
}

/** "layer0.feed_forward" -> "layer 1: feed forward". */
export function step(node: string): string {
  if (node === "set-up") return "making keys, once a session";
  if (node === "prepare") return "preparing the next tokens";
  if (node === "choose") return "choosing a token";
  const match = /^layer(\d+)\.(.+)$/.exec(node);
  const name = (match?.[2] ?? node).replace(/[._]/g, " ");
  return match ? `layer ${Number(match[1]) + 1}: ${name}` : name;
}
