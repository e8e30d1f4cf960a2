/** Texts to begin with, by what a model does. They are English, as most models are. */
import type { Kind } from "./service.js";

interface Example {
  readonly text: string;
  /** The context of a question, or lines to search in. */
  readonly lines?: string;
}

const PARIS = "The Eiffel Tower is 330 metres tall and stands in Paris.";
const HELP = "How do I reset my password?\nWhere is my parcel?\nCan I pay by card?\nMy phone does not charge";

export const EXAMPLES: Readonly<Record<Kind, readonly Example[]>> = {
  classify: [
    { text: "a film of quiet beauty" },
    { text: "a waste of time, truly bad" },
    { text: "not bad at all" },
  ],
  embed: [
    { text: "I forgot how to log in", lines: HELP },
    { text: "the package has not arrived", lines: HELP },
  ],
  tag: [{ text: "Ada Lovelace worked in London" }, { text: "Angela Merkel was born in Hamburg" }],
  answer: [
    { text: "How tall is the Eiffel Tower?", lines: PARIS },
    { text: "Where does the tower stand?", lines: PARIS },
  ],
  fill: [{ text: "a [MASK] film" }, { text: "the plot is [MASK]" }],
  generate: [{ text: "It is a truth" }, { text: "She was not" }],
};
