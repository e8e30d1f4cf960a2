/** Numbers and steps in words. */
import { known, number, t } from "./language.js";
import type { Key } from "./language.js";

export function bytes(count: number): string {
  if (count < 1000) return t("{count} bytes", { count });
  if (count < 1e6) return `${number(count / 1e3)} kB`;
  return count < 1e9 ? `${number(count / 1e6, 1)} MB` : `${number(count / 1e9, 2)} GB`;
}

export function seconds(milliseconds: number): string {
  return `${number(milliseconds / 1000, milliseconds < 9950 ? 1 : 0)} s`;
}

/** A duration that nobody reads to the second: "40 s", "4 min". */
export function about(milliseconds: number): string {
  const whole = Math.ceil(milliseconds / 1000);
  return whole < 90 ? `${whole} s` : `${Math.ceil(whole / 60)} min`;
}

export function percent(score: number): string {
  return `${number(100 * score, 1)} %`;
}

const STEPS: Readonly<Record<string, Key>> = {
  "set-up": "making keys, once a session",
  prepare: "preparing the next tokens",
  choose: "choosing a token",
};

/** "layer0.feed_forward" -> "layer 1: feed forward". */
export function step(node: string): string {
  const match = /^layer(\d+)\.(.+)$/.exec(node);
  const name = STEPS[node] ?? (match?.[2] ?? node).replace(/[._]/g, " ");
  const said = known(name) ? t(name) : name;
  return match ? t("layer {number}: {step}", { number: Number(match[1]) + 1, step: said }) : said;
}
