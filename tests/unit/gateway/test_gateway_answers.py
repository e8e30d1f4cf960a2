"""What the gateway makes of a server's offers and of its answers, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_decoders import llama

from tacita.gateway.app import Gateway
from tacita.gateway.bodies import Embeddings
from tacita.plans.wire import Models
from tacita.schemes.base import silent
from tacita.texts.answer import Answer
from tacita.texts.embed import Text

DOUBT = "the tokenizer knows nothing of this text"


def gateway(called: list[str], *doubts: tuple[str, ...]) -> Gateway:
    """Returns one whose server offers no names, and answers with these warnings; it notes its calls."""

    async def listed() -> Models:
        called.append("list")
        return Models(release="0", signer="0" * 64, models=())

    async def answer(texts: Sequence[Text], *_: Any) -> list[Answer]:
        return [Answer(None, (1.0, 0.0), warnings) for _, warnings in zip(texts, doubts, strict=True)]

    async def opened(*_: Any, **__: Any) -> Any:
        called.append("open")
        plan = SimpleNamespace(batch=8, name="m")
        return SimpleNamespace(plan=plan, front=llama(layers=1), answer=answer)

    return Gateway(listed, opened, None, silent)


def test_a_call_that_names_no_model_asks_what_is_offered_now() -> None:
    """A gateway that names a model does the same: a server that planned anew refuses its earlier plan."""
    called = list[str]()
    asyncio.run(gateway(called).session("embed", ""))
    assert called == ["list", "open"]


@pytest.mark.parametrize(("second", "told"), [((), None), ((DOUBT,), [f"text 1: {DOUBT}"])])
def test_reasons_to_doubt_an_answer_are_told(second: tuple[str, ...], told: list[str] | None) -> None:
    body = Embeddings.model_validate({"input": ["a film", "film"]})
    found = asyncio.run(gateway([], (), second).embeddings(body))
    assert found.get("warnings") == told and [row["embedding"] for row in found["data"]] == [[1.0, 0.0]] * 2
