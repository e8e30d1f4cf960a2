"""bumblebee: client and server compute together on shares of every value, over a connection; there are no
keys to keep.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.blocks.weights import Weights
from tacita.calibrate.calibrate import Sample
from tacita.checkpoint import Checkpoint
from tacita.client.answer import Answer, judge
from tacita.client.public_cache import PublicCache
from tacita.client.two_party import TwoPartyClient
from tacita.errors import InputError
from tacita.front.embed import Text
from tacita.models.reference import reference
from tacita.planning.circuit import Calibrated
from tacita.planning.two_party import make_two_party_plan
from tacita.plans.link import LinkSpeed
from tacita.plans.scheme import BUMBLEBEE
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.party import Party
from tacita.schemes.base import Place, Private, Report, Seconds, unknown_backend
from tacita.schemes.loopback import dialled, listening
from tacita.schemes.two_party_estimate import estimate
from tacita.server.session import MEMORY_GB
from tacita.server.two_party import TwoPartyServer
from tacita.two_party.fixed import FixedTensors


@dataclass(frozen=True)
class TwoParties:
    """The scheme of that name in `plans.scheme`."""

    name: str = BUMBLEBEE
    several: bool = False
    connected: bool = True

    def plan(self, calibrated: Calibrated) -> TwoPartyPlan:
        """See `planning.two_party.make_two_party_plan`; over a link with the transfers that are quicker
        there.
        """
        calibrated.phases.enter("calibrate", self.name)
        link = calibrated.wish.link
        plan = make_two_party_plan(calibrated.model, calibrated.wish, calibrated.phases.part)
        return plan.for_link(link.bits_per_second) if link else plan

    def estimate(
        self,
        plan: TwoPartyPlan,
        inputs: int | None = None,
        *,
        link: LinkSpeed | None = None,
        memory: float = MEMORY_GB,
    ) -> dict[str, Any]:
        """See `two_party_estimate`; the limit of memory is not its own: nothing is spilled."""
        return estimate(plan, inputs or 1, link)

    def client(self, party: Party, cache: Path | None = None, **options: Any) -> TwoPartyClient:
        """Of a connection that was dialled. cache: where public parts are kept (default: the user's)."""
        return TwoPartyClient(party, PublicCache(cache), **options)

    def server(self, plan: TwoPartyPlan, model: Checkpoint, **options: Any) -> TwoPartyServer:
        """Ready for connections, which `server.reception` accepts."""
        return TwoPartyServer(plan, model, **options)

    def in_the_clear(
        self,
        plan: TwoPartyPlan,
        model: Checkpoint,
        samples: Sequence[Sample],
        backend: str,
        seed: int,
        progress: Report,
    ) -> list[Answer]:
        """plain: the float model. sim: integers with the formats, roundings and polynomials of the
        protocols.
        """
        if plan.embedding is not None:
            raise InputError(f"{backend}: a hidden embedding", hint='plan it with embeddings="published"')
        answered = {"plain": _by_floats, "sim": _by_integers}
        if backend not in answered:
            raise unknown_backend(backend)
        return [answered[backend](plan, model, sample) for sample in samples]

    @contextmanager
    def private(self, plan: TwoPartyPlan, model: Checkpoint, place: Place) -> Iterator[Private]:
        """A server in a thread of this process, over TLS on the loopback, and a client that trusts its
        certificate.
        """
        with (
            listening(self.server(plan, model), place.threads) as address,
            dialled(address, place.threads) as party,
        ):
            client = self.client(party, place.folder / "public")
            yield Private(lambda texts, title: _together(client, texts, title, place))
            client.end()


def _together(
    client: TwoPartyClient, texts: Sequence[Text], title: str, place: Place
) -> tuple[list[Answer], Seconds]:
    began = time.monotonic()
    with place.bar(f"{title}evaluate"):
        answers = [client.classify(text) for text in texts]
    return answers, {"evaluate": time.monotonic() - began}


def _by_floats(plan: TwoPartyPlan, model: Checkpoint, sample: Sample) -> Answer:
    return judge(plan, reference(model, *sample).trace["answer"], real=int(sample[1].sum()))


def _by_integers(plan: TwoPartyPlan, model: Checkpoint, sample: Sample) -> Answer:
    """Not sound where a value left its ring."""
    hidden, mask = sample
    ops = FixedTensors(plan.formats, plan.bounds, Weights(model.tensors), mask)
    values = plan.run(ops, ops.input(hidden)).floats
    return judge(plan, values, sound=not ops.overflows, real=int(mask.sum()))
