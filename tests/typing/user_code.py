"""What a user of the Python interface writes, held to `mypy --strict` by `make lint`; nothing runs it."""

from __future__ import annotations

import tacita

MODEL = "my-model"  # a folder


def labels() -> list[str | None]:
    first = tacita.classify("a film of quiet beauty", backend="ckks")
    print(first.label, first.logits, [(score.label, score.score) for score in first.scores])
    return [each.label for each in tacita.classify(["a fine film", "so dull"], backend="ckks")]


def nearest(query: str) -> str:
    found: tacita.Search = tacita.search(query, model=MODEL, backend="ckks")
    return found.best(1)[0].label


def alike(first: str, second: str) -> float:
    one, other = tacita.embed([first, second], model=MODEL, backend="ckks")
    return one.similarity(other)


def names(text: str) -> list[str]:
    return [span.text for span in tacita.tag(text, model=MODEL, backend="ckks").spans]


def extracted(question: str, context: str) -> str:
    return tacita.answer(question, context, model=MODEL, backend="ckks").span.text


def ranked(query: str, documents: list[str]) -> list[tuple[str, float | None]]:
    ranking: tacita.Ranking = tacita.rerank(query, documents, model=MODEL, top_n=3, backend="ckks")
    print(ranking.privacy, ranking.best(1)[0].index)
    return [(each.document, each.score) for each in ranking.ranks]


def filled(text: str) -> list[str]:
    masks = tacita.fill(text, model=MODEL, backend="ckks").masks
    return [candidate.label for mask in masks for candidate in mask.best(3)]


def vectors(texts: list[str]) -> float:
    encoder = tacita.SentenceEncoder(MODEL, backend="ckks")
    rows = encoder.encode((text for text in texts), batch_size=8, show_progress_bar=False)
    return float(encoder.similarity(rows, rows)[0, 1])


def paired(first: str, second: str) -> list[float]:
    answer = tacita.classify(tacita.Pair(first, second), truncate=True, backend="ckks")
    return [each.score for each in answer.scores]


async def in_a_loop(texts: list[str]) -> tuple[float, str | None]:
    one, other = await tacita.embed_async(texts, model=MODEL, backend="ckks")
    return one.similarity(other), (await tacita.classify_async(texts[0], backend="ckks")).label
