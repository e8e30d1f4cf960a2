"""What a notebook shows of results, a short `repr`, encoders and coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

import tacita
from tacita import api
from tacita.errors import InputError
from tacita.plans.commitment import LINKS
from tacita.progress import Progress
from tacita.texts.answer import Answer, regression, several, withhold_failed
from tacita.texts.ranking import rank
from tacita.texts.spans import Candidate, Extract, Fill, Mask, Span, Tags
from tacita.texts.vectors import Embedding

WORDS = ["a fine film", "the plot is dull"]
HOW: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": [*WORDS, "never boring", "bad"]}
TOY: dict[str, Any] = {**HOW, "backend": "plain"}
MODEL = make_random_checkpoint(layers=1)
ENCODER = make_random_checkpoint(layers=1, pooling="mean", labels=())
SCRIPT = "<script>x</script>"


def results(folder: Path) -> dict[str, Any]:
    """Returns a result of every kind, some with long and hostile text."""
    plan, two = api.plan(MODEL, **HOW), api.plan(MODEL, scheme="bumblebee", **HOW)
    tacita.publish(plan, MODEL, folder / "public")
    span = Span("PER", 0.9, SCRIPT * 50, 0, 9)
    masks = (Mask(0, 6, tuple(Candidate(f"<b>{n}", 0.1, n) for n in range(30))),)
    long = Answer("x" * 5000, tuple(range(900)), (SCRIPT, *["w" * 900] * 40))
    client, server = api.Client, api.Server
    return {
        "classes": tacita.classify(WORDS[0], model=MODEL, **TOY),
        "embedding": tacita.embed(WORDS[0], model=ENCODER, **TOY),
        "long": long,
        "failed": withhold_failed(Answer("a", (1.0,), ("far",), trusted=False)),
        "several": several(tuple(f"{SCRIPT}{n}" for n in range(500)), tuple([1.0] * 500), ()),
        "regression": regression((SCRIPT,), (3.2,), ()),
        "tags": Tags(None, (0.0,), (), 1, (span,) * 40),
        "extract": Extract(None, (0.0,), (), 2, span),
        "fill": Fill(None, (0.0,), (), 1, masks, "[MASK] " + SCRIPT * 40),
        "ranking": rank([SCRIPT * 90, "b"], [Answer(None, (1.0,), ()), Answer(None, (0.0,), ())]),
        "plan": plan,
        "two parties": two,
        "estimate": tacita.estimate(plan, 3),
        "estimate of two": tacita.estimate(two, link=LINKS["WAN"]),
        "model": MODEL,
        "request": tacita.PlanRequest(texts=["t" * 900] * 90),
        "choice": api.choose_plan(MODEL, **HOW),
        "public": api.open_public(folder / "public"),
        "pipeline": tacita.pipeline("text-classification", model=MODEL, **TOY),
        "encoder": tacita.SentenceEncoder(ENCODER, **TOY),
        "client": client(folder / "public", folder, allow_insecure=True),
        "server": server(plan, MODEL, folder, allow_insecure=True),
        "service": tacita.connect("https://127.0.0.1:1", token="secret", data=folder),
        "coroutines": tacita.connect_async("https://127.0.0.1:1", token="secret", data=folder),
        "token": next(iter(tacita.generate("Emma could", backend="plain", max_tokens=1))),
    }


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


DRAWN = {"classes", "embedding", "long", "failed", "several", "regression", "tags", "extract", "fill"}
DRAWN |= {"ranking", "plan", "two parties", "estimate", "estimate of two"}


@pytest.mark.native
def test_a_notebook_shows_little_and_nothing_that_acts(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    objects = results(tmp_path)
    for name, value in objects.items():
        assert len(repr(value)) <= 300, (name, repr(value))
        assert "secret" not in repr(value)
    assert {name for name, value in objects.items() if hasattr(value, "_repr_html_")} == DRAWN
    for name in DRAWN:
        drawing = objects[name]._repr_html_()
        page = Page()
        page.feed(drawing)
        assert not page.open and page.names <= {"table", "caption", "tr", "th", "td", "span"}, name
        assert SCRIPT not in drawing and len(drawing) < 14_000
    objects["service"].close()
    asyncio.run(objects["coroutines"].close())


def test_cards_say_what_protects_and_what_it_costs() -> None:
    answer = tacita.classify(WORDS[0], model=MODEL, **TOY)._repr_html_()
    assert "none: plain encrypts nothing" in answer and "positive" in answer and "negative" in answer
    plan = api.plan(MODEL, **HOW)._repr_html_()
    assert "keys, once" in plan and "over WAN" in plan and "bits (thor, preset insecure_toy_n10)" in plan
    figures = tacita.estimate(api.plan(MODEL, **HOW), 3)
    assert figures["inputs"] == 3 and "bytes: evaluation_keys" in figures._repr_html_()


def test_an_encoder_gives_what_users_of_sentence_transformers_expect() -> None:
    encoder = tacita.SentenceEncoder(ENCODER, **TOY)
    many = encoder.encode(WORDS, batch_size=1, show_progress_bar=False)
    assert many.shape == (2, ENCODER.config.hidden) and many.dtype == np.float32
    assert np.linalg.norm(many, axis=1) == pytest.approx([1.0, 1.0])
    one = encoder.encode(WORDS[0])
    assert one.shape == (ENCODER.config.hidden,) and one == pytest.approx(many[0])
    assert encoder.encode(iter(WORDS)) == pytest.approx(many) and encoder.encode([]).shape[0] == 0
    raw = encoder.encode(WORDS, normalize_embeddings=False)
    wanted = tacita.embed(WORDS, model=ENCODER, **TOY)
    assert raw == pytest.approx(np.stack([each.vector for each in wanted]), rel=1e-6)
    alike = encoder.similarity(many, many)
    assert alike.shape == (2, 2) and np.diag(alike) == pytest.approx([1.0, 1.0])
    assert encoder.privacy == "none: plain encrypts nothing"
    with pytest.raises(InputError, match="a batch of 0"):
        encoder.encode(WORDS, batch_size=0)


@pytest.mark.parametrize("scheme", ["arion", "bumblebee"])
def test_an_encoder_asks_any_scheme(scheme: str) -> None:
    wanted = tacita.SentenceEncoder(ENCODER, **TOY).encode(WORDS)
    encoder = tacita.SentenceEncoder(ENCODER, scheme=scheme, **{**TOY, "backend": "sim"})
    assert encoder.encode(WORDS, batch_size=2) == pytest.approx(wanted, abs=0.02)


class FakeService:
    """A service by what an encoder asks of it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def embed(self, texts: list[str], *, model: str | None, **how: Any) -> list[Embedding]:
        assert (model, how) == ("minilm", {"truncate": True})
        self.batches.append(texts)
        failed = withhold_failed(Embedding(None, (9.0, 9.0), ("beyond",), trusted=False))
        return [failed if text == "far" else Embedding(None, (3.0, 4.0), (), privacy="p") for text in texts]


def test_an_encoder_asks_a_service_batch_by_batch_and_says_which_rows_failed() -> None:
    service: Any = FakeService()
    encoder = tacita.SentenceEncoder("minilm", service=service, truncate=True)
    with pytest.warns(UserWarning, match=r"rows \[1\]"):
        found = encoder.encode(["a", "far", "b"], batch_size=2)
    assert service.batches == [["a", "far"], ["b"]] and encoder.privacy == "p"
    assert found[0] == pytest.approx([0.6, 0.8]) and np.isnan(found[1]).all()
    with pytest.raises(InputError, match="every answer failed"):
        encoder.encode(["far"])


TWINS = sorted(set(tacita.__all__) & {f"{name}_async" for name in tacita.__all__} - {"connect_async"})


def test_every_verb_has_a_coroutine_with_its_arguments() -> None:
    verbs = {"answer", "classify", "embed", "fill", "generate", "rerank", "search", "tag"}
    assert {name.removesuffix("_async") for name in TWINS} == verbs
    for name in verbs - {"generate"}:
        function, twin = getattr(tacita, name), getattr(tacita, f"{name}_async")
        assert inspect.signature(function) == inspect.signature(twin)


def test_coroutines_answer_side_by_side() -> None:
    async def both() -> list[Any]:
        one = tacita.classify_async(WORDS[0], model=MODEL, **TOY)
        many = tacita.classify_async(WORDS, model=MODEL, **TOY)
        return list(await asyncio.gather(one, many))

    one, many = asyncio.run(both())
    assert [one, *many] == tacita.classify([WORDS[0], *WORDS], model=MODEL, **TOY)


def test_a_coroutine_that_is_cancelled_ends_at_the_next_report() -> None:
    began, reports = threading.Event(), list[Progress]()

    def report(now: Progress) -> None:
        reports.append(now)
        began.set()

    async def cancelled() -> int:
        how = {**TOY, "progress": report, "salt": "0" * 64}
        task = asyncio.create_task(tacita.classify_async(WORDS * 40, model=MODEL, **how))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        count = len(reports)
        await asyncio.sleep(0)
        return count

    assert asyncio.run(cancelled()) == len(reports) < 40  # the texts alone report more often


@pytest.mark.filterwarnings("error")
def test_a_coroutine_without_a_backend_warns_where_it_was_called() -> None:
    with pytest.warns(tacita.PrivacyWarning, match="classify_async: backend 'sim'") as caught:
        coroutine = tacita.classify_async(WORDS[0], model=MODEL, **HOW)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        assert asyncio.run(coroutine).privacy == "none: sim encrypts nothing"


def test_tokens_come_one_by_one_and_an_early_end_is_clean() -> None:
    async def first() -> str:
        tokens = tacita.generate_async("Emma could", backend="plain", max_tokens=5)
        text = ""
        async for token in tokens:
            text += token.text
            if len(text) > 1:
                break
        await tokens.aclose()
        return text

    whole = "".join(token.text for token in tacita.generate("Emma could", backend="plain", max_tokens=5))
    assert whole.startswith(asyncio.run(first()))
