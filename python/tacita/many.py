"""Answers many texts on many machines in one call.

>>> import tacita
>>> tacita.classify_many(["a film of quiet beauty"], ray="ray://10.0.0.5:10001")
Traceback (most recent call last):
tacita.errors.InputError: --ray 'ray://10.0.0.5:10001': neither local nor HOST:PORT
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Unpack

from tacita.api import Model, choose_plan, load
from tacita.checkpoint import Checkpoint
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.request import Fields, PlanRequest
from tacita.plans.answers import Answer
from tacita.plans.engine import require_secure
from tacita.schemes.base import Place, Report, silent
from tacita.server.machines.cluster import LOCAL, require_reachable, where_of
from tacita.server.machines.spread import spreading
from tacita.texts.embed import Text
from tacita.texts.task import require_kind


def classify_many(
    asked: Sequence[Text],
    /,
    *,
    model: Model = DEFAULT_MODEL,
    ray: str = LOCAL,
    nodes: int | None = None,
    cores: int | None = None,
    threads: int = 0,
    memory: float = MEMORY_GB,
    allow_insecure: bool = False,
    progress: Report = silent,
    scheme: str = "thor",
    **request: Unpack[Fields],
) -> list[Answer]:
    """Labels each text, in order: encrypted here, evaluated on the machines of a Ray cluster.

    asked: texts, or pairs of texts. ray: "local", which starts a cluster on this machine and ends it, or
    HOST:PORT of one that this machine has joined. nodes: to start here (of one core each), or to use there at
    most. cores: of one evaluator (default: its whole node). threads: cores of this machine for "local" (0:
    all). memory: GB of each evaluator. The others are those of `tacita.classify`, whose backend is always
    "ckks" here.

    Cost: what the first report says, of which texts on n nodes take an n-th. Raises InputError where Ray is
    not installed, PeerError where no cluster answers or all of its nodes are lost, PlanError, ResourceError.
    """
    where = where_of(ray, nodes, cores)
    wished = PlanRequest(scheme=scheme, **request).calibrated_for(asked)
    if not asked:
        raise InputError("classify_many: no text", hint="pass a list of texts")
    for ring in wished.rings:
        require_secure(ring, allow_insecure=allow_insecure)
    require_reachable(where)  # refused before minutes of planning
    loaded = model if isinstance(model, Checkpoint) else load(model)
    require_kind("classify", loaded.config)
    plan = choose_plan(loaded, wished, progress=progress).plan
    groups = [asked[at : at + plan.batch] for at in range(0, len(asked), plan.batch)]
    with tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        place = Place(Path(folder), threads, memory, allow_insecure, bar=lambda _: nullcontext(progress))
        with spreading(plan, loaded, place, where, link=wished.link) as run:
            progress(run.forecast(len(groups)).report())
            return [answer for answers, _ in run.answers(groups) for answer in answers]
