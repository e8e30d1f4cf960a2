"""Tacita classifies text that it never sees: a client encrypts, a server evaluates a transformer, the client
decrypts.

>>> import tacita
>>> plan = tacita.plan(tacita.load(), tokens=16, preset="insecure_toy_n11", texts=["a fine film", "so dull"])
>>> plan.labels
('negative', 'positive')

`tacita.classify("a fine film")` answers in one line (`tacita.ask`); `tacita.api` goes step by step, and
`tacita.connect("https://host:8443", token=token).classify("a fine film")` asks a server (`tacita.remote`).
Importing this takes a tenth of a second: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacita import errors
from tacita.errors import PrivacyWarning, TacitaError
from tacita.version import __version__

if TYPE_CHECKING:
    from tacita.api import Answer, Client, Server, Wish, load, plan, publish
    from tacita.ask import answer, classify, embed, fill, search, tag
    from tacita.cluster.many import classify_many
    from tacita.generation.generate import generate
    from tacita.pipelines import pipeline
    from tacita.remote.connect import connect, connect_async
    from tacita.tasks.classes import Classes
    from tacita.tasks.embedding import Embedding
    from tacita.tasks.regression import Regression
    from tacita.tasks.search import Search
    from tacita.tasks.several import Several
    from tacita.tasks.tokens.extract import Extract
    from tacita.tasks.tokens.fill import Fill
    from tacita.tasks.tokens.tags import Tags

__all__ = [
    "Answer",
    "Classes",
    "Client",
    "Embedding",
    "Extract",
    "Fill",
    "PrivacyWarning",
    "Regression",
    "Search",
    "Server",
    "Several",
    "TacitaError",
    "Tags",
    "Wish",
    "__version__",
    "answer",
    "classify",
    "classify_many",
    "connect",
    "connect_async",
    "embed",
    "errors",
    "fill",
    "generate",
    "load",
    "pipeline",
    "plan",
    "publish",
    "search",
    "tag",
]

_ASKING = ("answer", "classify", "embed", "fill", "search", "tag")
_HOMES = dict.fromkeys(_ASKING, "tacita.ask")  # not in tacita.api
_HOMES |= {
    name: f"tacita.tasks.{name.lower()}"
    for name in ("Classes", "Embedding", "Regression", "Search", "Several")
}
_HOMES |= {name: f"tacita.tasks.tokens.{name.lower()}" for name in ("Extract", "Fill", "Tags")}
_HOMES |= {"classify_many": "tacita.cluster.many"}
_HOMES |= {"pipeline": "tacita.pipelines", "generate": "tacita.generation.generate"}
_HOMES |= dict.fromkeys(("connect", "connect_async"), "tacita.remote.connect")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tacita' has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "tacita.api")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
