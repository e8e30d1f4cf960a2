"""Fine-tune the upper layers of MiniLM-L6 into a cross-encoder: six trained layers to measure reranking on.

A query is some words in a row of a sentence of SST-2, of which a fifth is left out; the document that it
wants is that sentence, and the others are one that shares the query's rarest word and one at random. Writes
a folder for `tacita rerank --model` whose one logit is the difference of the two that learn, with pairs of
its training for plans to calibrate on, and pairs of sentences that it has not seen: `asked.tsv`, five
documents a query, the wanted one first.
"""

import random
from collections import defaultdict
from collections.abc import Iterator

import data
import numpy as np
import torch
from bert import Embeddings
from classifier import CALIBRATION, arguments, new_classifier, read_rows
from export import write_folder
from student import predict_logits
from teacher import MINILM, accuracy, fine_tune
from tokenizers import Tokenizer
from torch import nn

SEP = 102  # ends each text of a pair
WORDS = 8  # fewest of a sentence
DOCUMENTS = 5  # that are asked for each query


class PairEmbeddings(Embeddings):
    """Embeddings whose second text has the second token type."""

    def types(self, ids: torch.Tensor) -> torch.Tensor:
        ends = (ids == SEP).long()
        return self.token_type_embeddings((ends.cumsum(1) - ends).clamp(max=1))


class Queries:
    """Pairs of queries and sentences. Sentences: those that are documents."""

    def __init__(self, sentences: list[str], seed: int):
        self.sentences, self.random = sentences, random.Random(seed)
        self.with_word: dict[str, list[str]] = defaultdict(list)
        for sentence in sentences:
            for word in set(sentence.split()):
                self.with_word[word].append(sentence)

    def groups(self, others: int) -> Iterator[list[data.Example]]:
        """For each sentence a query with it, with one that shares a word, and with others at random."""
        for sentence in self.sentences:
            words = sentence.split()
            count = self.random.randint(3, min(8, len(words)))
            start = self.random.randrange(len(words) - count + 1)
            part = words[start : start + count]
            query = " ".join([w for w in part if self.random.random() > 0.2] or part)
            shared = [each for each in self._sharing(query) if query not in each and each != sentence]
            picked = [self.random.choice(shared)] if shared else []
            while len(picked) < others:
                if (one := self.random.choice(self.sentences)) not in (sentence, *picked):
                    picked.append(one)
            yield [data.Example((query, sentence), 1), *(data.Example((query, one), 0) for one in picked)]

    def _sharing(self, query: str) -> list[str]:
        """Returns the sentences with the rarest word of the query that several have."""
        known = [each for word in query.split() if len(each := self.with_word[word]) > 1]
        return min(known, key=len, default=[])


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], seed=20261129)
    parser.add_argument("--sentences", type=int, default=5000, help="that queries are taken from")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rows, held_out = read_rows(args.sst2, WORDS)
    long = [e.text for e in rows]
    sentences = long[:: -(-len(long) // args.sentences)]
    train = [pair for group in Queries(sentences, args.seed).groups(2) for pair in group]
    unseen = Queries([e.text for e in held_out], args.seed)
    asked = [pair for group in unseen.groups(DOCUMENTS - 1) for pair in group]
    tokenizer = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    model, labels = new_classifier(args.minilm, args.layers), np.array([e.label for e in train])
    embeddings = PairEmbeddings(MINILM)
    embeddings.load_state_dict(model.bert.embeddings.state_dict())
    model.bert.embeddings = embeddings.requires_grad_(False)
    fine_tune(model, data.encode(tokenizer, train), labels, 1, args.rate, args.seed)
    logits = predict_logits(model, data.encode(tokenizer, asked))
    scores = (logits[:, 1] - logits[:, 0]).reshape(-1, DOCUMENTS)
    first = float((scores.argmax(1) == 0).mean())
    print(f"{len(train)} pairs; unseen: {accuracy(logits, asked):.4f} right, {first:.4f} ranked first")
    head = nn.Linear(MINILM.hidden, 1)
    head.weight.data, head.bias.data = (
        each.diff(dim=0) for each in (model.classifier.weight, model.classifier.bias)
    )
    model.classifier = head.requires_grad_(False)
    tokenizer.no_truncation()
    names = {"id2label": {"0": "relevance"}, "label2id": {"relevance": 0}}
    write_folder(args.out, model, tokenizer, MINILM, {"num_labels": 1, "problem_type": "regression", **names})
    for name, pairs in (("calibration.tsv", train[:: -(-len(train) // CALIBRATION)]), ("asked.tsv", asked)):
        lines = ("\t".join(each.text) + "\n" for each in pairs)
        (args.out / name).write_text("text\ttext2\n" + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
