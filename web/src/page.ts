/** The page: puts the form, the questions and the languages together. */
import * as form from "./form.js";
import { LANGUAGES, language, speak, t, translate, wanted } from "./language.js";
import type { Language } from "./language.js";
import { say } from "./progress.js";
import { ask, fail, holdsKeys, insecure, leave, look, numbers, redraw, stop } from "./queue.js";
import { element } from "./result.js";
import { models } from "./service.js";

async function list(): Promise<void> {
  try {
    const some = form.offer(await models(form.token.value.trim()));
    form.button.disabled = !some;
    if (!some) return say(t("this server has no model that a page can ask"), "problem");
    shape(true);
    look();
    say("");
  } catch (error) {
    element("access", HTMLElement).hidden = false;
    fail(error instanceof Error ? error.message : "the server does not answer", false);
    form.button.disabled = true;
  }
}

function shape(fresh: boolean): void {
  form.shape(fresh);
  form.showWay(holdsKeys());
}

function languages(): void {
  const switches = Object.entries(LANGUAGES).map(([which, name]) => {
    const content = { type: "button", lang: which, textContent: name };
    const made = Object.assign(document.createElement("button"), content);
    made.ariaPressed = String(which === language());
    made.addEventListener("click", () => choose(which as Language));
    return made;
  });
  element("languages", HTMLElement).replaceChildren(...switches);
}

function choose(which: Language): void {
  const address = new URL(location.href);
  address.searchParams.set("lang", which);
  history.replaceState(null, "", address);
  speak(which);
  translate();
  languages();
  element("languages", HTMLElement).querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
  if (!form.hasModels()) return;
  form.listModels();
  shape(false);
  redraw();
}

form.form.addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    ask();
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error), false);
  }
});
for (const field of [form.text, form.lines]) field.addEventListener("input", form.update);
form.stopper.addEventListener("click", stop);
element("copy", HTMLElement).addEventListener("click", () => {
  void navigator.clipboard.writeText(JSON.stringify(numbers())).then(() => say(t("copied")));
});
form.model.addEventListener("change", () => {
  leave();
  element("result", HTMLElement).hidden = true;
  shape(true);
});
form.ways.addEventListener("change", () => {
  leave();
  form.keepWay();
  form.showWay(false);
});
form.token.addEventListener("change", () => {
  leave();
  void list();
});
window.addEventListener("pagehide", leave);
element("insecure", HTMLElement).hidden = !insecure;
speak(wanted(location.href, navigator.languages));
translate();
languages();
if (crossOriginIsolated) void list();
else fail("this page needs the headers COOP and COEP, over HTTPS or from this machine", false);
