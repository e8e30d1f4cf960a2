/** The ways by which a model can be asked, and what each costs, before anything is sent. */
import type { Offer } from "./service.js";
import { about, bytes, seconds } from "./words.js";

const LINKS = [20, 100]; // megabits a second of upload that a price is told for
const SLOWER = 4; // times the native client's seconds that a page takes to make keys

export function nameOf(offer: Offer): string {
  return offer.connected
    ? "two parties, connected: both compute while they talk"
    : `${offer.scheme}: encrypt once, the server computes alone`;
}

/** held: whether this page's keys are at the server. */
export function price(offer: Offer, held: boolean): string {
  const answer = about(1000 * offer.seconds);
  if (offer.token_bytes > 0) {
    const first = `About ${answer} and ${bytes(offer.traffic_bytes)} for the prompt`;
    const then = `${seconds(1000 * offer.token_seconds)} and ${bytes(offer.token_bytes)} for each token behind it`;
    return `${first}, ${then}; nothing is kept.`;
  }
  if (offer.connected) return `About ${answer} and ${bytes(offer.traffic_bytes)} each text; nothing is kept.`;
  const each = `Each text sends ${bytes(offer.request_bytes)} and takes the server about ${answer}.`;
  if (held) return `${each} Your keys are at the server until you leave this page.`;
  const made = about(1000 * SLOWER * offer.keygen_seconds);
  const links = LINKS.map((rate) => `${about((8 * offer.keys_bytes) / (1000 * rate))} at ${rate} Mbit/s`);
  return (
    `First ${bytes(offer.keys_bytes)} of keys are made here and sent, once: about ${made} to make them, ` +
    `or as long as sending takes (${links.join(", ")}). ${each} The secret key stays in this page's memory ` +
    "and is gone when you leave it; the server then drops the keys."
  );
}

/** The radio buttons of the ways, the first chosen. */
export function radios(offers: readonly Offer[]): HTMLLabelElement[] {
  return offers.map((offer, index) => {
    const button = Object.assign(document.createElement("input"), { type: "radio", name: "way" });
    button.value = offer.scheme;
    button.defaultChecked = index === 0;
    const label = document.createElement("label");
    label.append(button, nameOf(offer));
    return label;
  });
}
