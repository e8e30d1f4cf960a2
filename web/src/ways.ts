/** The ways by which a model can be asked, and what each costs, before anything is sent. */
import { t } from "./language.js";
import type { Offer } from "./service.js";
import { about, bytes, seconds } from "./words.js";

const LINKS = [20, 100]; // megabits a second of upload that a price is told for
const SLOWER = 4; // times the native client's seconds that a page takes to make keys

/** held: whether this page's keys are at the server. writes: whether a request is a token of a text. */
export function price(offer: Offer, held: boolean, writes = false): string {
  const answer = about(1000 * offer.seconds);
  const traffic = bytes(offer.traffic_bytes);
  if (offer.token_bytes > 0) {
    const then = { each: seconds(1000 * offer.token_seconds), bytes: bytes(offer.token_bytes) };
    const first = t("About {answer} and {traffic} for the prompt.", { answer, traffic });
    const behind = t("{each} and {bytes} for each token behind it.", then);
    const broken = t("If the connection breaks, the server keeps its half of the numbers for five minutes.");
    return `${first} ${behind} ${broken}`;
  }
  const both = { answer, traffic };
  if (offer.connected) return t("About {answer} and {traffic} each text; nothing is kept.", both);
  const request = { bytes: bytes(offer.request_bytes), answer };
  const row = { ...request, kept: bytes(offer.kept_bytes ?? 0) };
  const rows = t("Each token, of the prompt too, sends {bytes} and takes the server about {answer}.", row);
  const kept = t("The server keeps {kept} for the text, which it cannot read, until the text ends.", row);
  const whole = writes
    ? t("Each token sends {bytes} and takes the server about {answer}.", request)
    : t("Each text sends {bytes} and takes the server about {answer}.", request);
  const each = offer.kept_bytes ? `${rows} ${kept}` : whole;
  if (held) return `${each} ${t("Your keys are at the server until you leave this page.")}`;
  const made = about(1000 * SLOWER * offer.keygen_seconds);
  const links = LINKS.map((rate) => {
    return t("{time} at {rate} Mbit/s", { time: about((8 * offer.keys_bytes) / (1000 * rate)), rate });
  });
  return [
    t("First {bytes} of keys are made here and sent, once.", { bytes: bytes(offer.keys_bytes) }),
    t("That takes about {made}, or as long as sending takes ({links}).", { made, links: links.join(", ") }),
    each,
    t("The secret key stays in this page's memory and is gone when you leave it."),
    t("The server then drops the keys."),
  ].join(" ");
}

function line(kind: "strong" | "span", words: string): HTMLElement {
  return Object.assign(document.createElement(kind), { textContent: words });
}

/** The radio buttons of the ways, the one with this scheme chosen, else the first. */
export function radios(offers: readonly Offer[], scheme: string): HTMLLabelElement[] {
  const chosen = Math.max(0, offers.findIndex((offer) => offer.scheme === scheme));
  return offers.map((offer, index) => {
    const button = Object.assign(document.createElement("input"), { type: "radio", name: "way" });
    button.value = offer.scheme;
    button.defaultChecked = index === chosen;
    const name = offer.connected ? t("Talk with the server") : t("Send once, come back");
    const how = offer.connected
      ? t("both compute while they talk; no keys are kept")
      : t("the server computes alone; keys go first");
    const words = document.createElement("span");
    words.append(line("strong", name), line("span", `${how} (${offer.scheme})`));
    const label = document.createElement("label");
    label.append(button, words);
    return label;
  });
}
