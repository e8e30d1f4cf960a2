"""Tacita classifies text that it never sees: a client encrypts, a server evaluates a transformer, the client
decrypts.

>>> import tacita
>>> plan = tacita.plan(tacita.load(), tokens=16, preset="insecure_toy_n11", texts=["a fine film", "so dull"])
>>> plan.labels
('negative', 'positive')

`tacita.classify("a fine film")` answers in one line (`tacita.ask`); `tacita.api` goes step by step, and
`tacita.connect("https://host:8443", token=token).classify("a fine film")` asks a server (`tacita.client`).
Importing this takes a tenth of a second: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacita import errors
from tacita.errors import PrivacyWarning, TacitaError
from tacita.version import __version__

if TYPE_CHECKING:
    from tacita.api import Answer, Client, PlanRequest, Server, estimate, load, plan, publish
    from tacita.ask import (
        answer,
        answer_async,
        classify,
        classify_async,
        classify_many,
        embed,
        embed_async,
        fill,
        fill_async,
        generate_async,
        rerank,
        rerank_async,
        search,
        search_async,
        tag,
        tag_async,
    )
    from tacita.bar import Estimate
    from tacita.client.connect import connect, connect_async
    from tacita.generation.generate import generate
    from tacita.pipelines import SentenceEncoder, pipeline
    from tacita.texts.answer import Classes, Regression, Several
    from tacita.texts.inputs import Pair
    from tacita.texts.ranking import Ranking
    from tacita.texts.spans import Extract, Fill, Tags
    from tacita.texts.vectors import Embedding, Search

__all__ = [
    "Answer",
    "Classes",
    "Client",
    "Embedding",
    "Estimate",
    "Extract",
    "Fill",
    "Pair",
    "PlanRequest",
    "PrivacyWarning",
    "Ranking",
    "Regression",
    "Search",
    "SentenceEncoder",
    "Server",
    "Several",
    "TacitaError",
    "Tags",
    "__version__",
    "answer",
    "answer_async",
    "classify",
    "classify_async",
    "classify_many",
    "connect",
    "connect_async",
    "embed",
    "embed_async",
    "errors",
    "estimate",
    "fill",
    "fill_async",
    "generate",
    "generate_async",
    "load",
    "pipeline",
    "plan",
    "publish",
    "rerank",
    "rerank_async",
    "search",
    "search_async",
    "tag",
    "tag_async",
]

_ASKING = ("answer", "classify", "embed", "fill", "rerank", "search", "tag")
_HOMES = dict.fromkeys(_ASKING, "tacita.ask")  # not in tacita.api
_HOMES |= dict.fromkeys(("Classes", "Regression", "Several"), "tacita.texts.answer")
_HOMES |= dict.fromkeys(("Embedding", "Search"), "tacita.texts.vectors")
_HOMES |= dict.fromkeys(("Extract", "Tags"), "tacita.texts.spans") | {"Fill": "tacita.texts.spans"}
_HOMES |= {"classify_many": "tacita.ask", "Ranking": "tacita.texts.ranking", "Pair": "tacita.texts.inputs"}
_HOMES |= {"pipeline": "tacita.pipelines", "generate": "tacita.generation.generate"}
_HOMES |= {f"{name}_async": "tacita.ask" for name in (*_ASKING, "generate")}
_HOMES |= {"SentenceEncoder": "tacita.pipelines", "Estimate": "tacita.bar"}
_HOMES |= dict.fromkeys(("connect", "connect_async"), "tacita.client.connect")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tacita' has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "tacita.api")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
