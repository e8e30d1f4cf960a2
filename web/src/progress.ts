/** What a visitor reads while a text is under way: a sentence, the step, the time so far and what is left. */
import { language, t } from "./language.js";
import { element } from "./result.js";
import { about, seconds } from "./words.js";

const CLEAR = 0.03; // share of the work behind which what is left can be told from it
const EVERY = 250; // milliseconds
const status = element("status", HTMLElement);
const bar = element("progress", HTMLProgressElement);

/** What whoever computes says: the share that is done, and milliseconds that were left at a time. */
interface Forecast {
  readonly share: number;
  readonly left: number;
  readonly at: number;
}

let forecast: Forecast | undefined;
let ticking = 0;
let began = 0;
let working = 0; // when the model began to run, behind the keys of a session

export function say(words: string, kind: "" | "problem" | "answer" = ""): void {
  status.textContent = words;
  status.dataset["kind"] = kind;
  status.lang = language();
}

/** Says what a server or the engine said, which is in English. */
export function quote(words: string): void {
  say(words, "problem");
  status.lang = "en";
}

export function sayStep(words: string): void {
  element("step", HTMLElement).textContent = words;
}

/** share, left: as of `Forecast`; without them nothing is foreseen. */
export function foresee(share?: number, left?: number): void {
  const known = share !== undefined && left !== undefined;
  forecast = known ? { share, left, at: performance.now() } : undefined;
}

/** The model runs from now on. */
export function beginWork(): void {
  working ||= performance.now();
}

/** Sets the clock to zero. */
export function resetClock(): void {
  [began, working, forecast] = [performance.now(), 0, undefined];
}

/** Milliseconds on the clock. */
export function elapsed(): number {
  return performance.now() - began;
}

/** measure: the share of the work that is done, null where that cannot be told; asked once the model runs. */
export function startClock(measure: () => number | null): void {
  stopClock();
  element("waiting", HTMLElement).hidden = false;
  ticking = setInterval(tick, EVERY, measure);
  tick(measure);
}

export function stopClock(): void {
  element("waiting", HTMLElement).hidden = true;
  clearInterval(ticking);
}

/** Time so far, and what is left: as whoever computes says, else as the share lets expect. */
function tick(measure: () => number | null): void {
  const done = forecast?.share ?? (working ? measure() : null);
  const rest = restOf(done);
  if (done === null) bar.removeAttribute("value");
  else bar.value = done;
  const so_far = seconds(elapsed());
  element("clock", HTMLElement).textContent =
    rest === null || rest < 1000
      ? t("{elapsed} so far", { elapsed: so_far })
      : t("{elapsed} so far, about {left} left", { elapsed: so_far, left: about(rest) });
}

function restOf(share: number | null): number | null {
  const now = performance.now();
  if (forecast) return forecast.left - (now - forecast.at);
  return share && share > CLEAR ? ((now - working) * (1 - share)) / share : null;
}
