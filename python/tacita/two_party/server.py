"""The server of two-party sessions: each client until it leaves, fails, or takes too long.

Sessions may run in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, GoneError, LateError, PeerError, RefusedError, TacitaError
from tacita.planning.calibrate.walk import prefix_rows
from tacita.plans import engine
from tacita.texts.task import NEXT
from tacita.two_party.arithmetic.residues import Words
from tacita.two_party.limits import (
    HANDSHAKE_QUEUE,
    QUIET,
    Admission,
    Idle,
    Limits,
    Publication,
    Publisher,
    limits_of,
)
from tacita.two_party.model import ServerModel, share_prefix
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import require_fitting, require_ordinary
from tacita.two_party.program.run import Ahead, Past, Run, Watch, zeros
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.handshake import CLASSIFY, ECHO, END, LINK, PREPARE, WRITE
from tacita.two_party.protocol.party import Party
from tacita.two_party.protocol.refusal import Reason, Refusal
from tacita.two_party.sessions import GenerationSessions

BITS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Served:
    """What a session came to: texts that were answered, and what ended it early, if anything."""

    texts: int
    problem: TacitaError | None

    @property
    def ending(self) -> str:
        """How it ended, in a word or two."""
        if self.problem is None:
            return "answered" if self.texts else "asked nothing"
        kinds = {RefusedError: "refused", LateError: "too late", GoneError: "broken off"}
        return kinds.get(type(self.problem), "damaged")


class TwoPartyServer:
    """A model ready to serve. Raises CheckpointError when plan and checkpoint do not belong together, or for
    weights that do not fit it (`require_fitting`).

    limits: default those of a link of 1 Gbit/s. most: texts of a hidden table's key, None for any number.
    """

    def __init__(
        self,
        plan: TwoPartyPlan,
        checkpoint: Checkpoint,
        limits: Limits | None = None,
        most: int | None = None,
    ) -> None:
        require_ordinary(checkpoint.config)
        if plan.config != checkpoint.config:
            raise CheckpointError("serve: the plan is of another model", hint="make it again")
        self.plan = plan
        self.limits = limits or limits_of(plan, bits_per_second=BITS_PER_SECOND)
        self._program = plan.program
        weights = Weights(checkpoint.tensors)
        require_fitting(plan, weights)
        self._model = ServerModel(plan.formats, weights, plan.recorded.held)
        self._generations: GenerationSessions | None = None
        if plan.task == NEXT:
            # this party's share of the public beginning, which it computes in floats
            prefix = share_prefix(plan, prefix_rows(checkpoint, plan.begin).nodes) if plan.begin else Past()
            self._generations = GenerationSessions(plan.program, self._model, prefix)
        self._publisher, self._idle = Publisher(plan, checkpoint, most), Idle()

    def session(
        self, party: Party, watch: Watch = lambda stage: None, admission: Admission | None = None
    ) -> Served:
        """Serves one connected client to its end. Never raises because of the client: see `Served.problem`.

        watch: called as each step of a text begins. admission: what admits its texts
        and counts them.
        """
        admission, texts, ready = admission or Admission(), 0, False
        ahead = Ahead(party.native, self._program, self._model)
        try:
            with engine.translated(PeerError, "session"):
                publication = self._run_handshake(party, admission)
                while answer := self._next_request(party, admission, publication, ahead):
                    if not ready:
                        watch("set-up")
                        party.set_up(self.plan.correlations)
                    ready = True
                    texts += answer(watch)
                    admission.over()
        except TacitaError as error:
            return Served(texts, error)
        return Served(texts, None)

    def _run_handshake(self, party: Party, admission: Admission) -> Publication:
        """Makes the handshake with the client, which has as long as its connection was given, and longer only
        to fetch the public part."""
        party.hold(HANDSHAKE_QUEUE)
        renewing = self._publisher.renewing
        publication = self._publisher.current()
        if renewing:  # which was our time, not the client's
            party.limit(self.limits.handshake)
        data, seconds = publication.data, self.limits.part(len(publication.data))

        def load() -> None:
            admission.fetch(len(data))
            party.limit(seconds)

        handshake.run_server(party, data, self.plan.hash, refuse=admission.refusal, loading=load)
        return publication

    def _next_request(
        self, party: Party, admission: Admission, publication: Publication, ahead: Ahead
    ) -> Callable[[Watch], int] | None:
        """Returns what answers the client's next request, and returns how many texts that were; None where it
        has none. Raises RefusedError."""
        party.limit(self.limits.resting if ahead.texts else self.limits.idle)
        enough = ahead.texts >= self.limits.prepared
        while (wish := self._wish(party)) in (LINK, ECHO) or (wish == PREPARE and enough):
            if wish == LINK:
                party.native.set_link(handshake.receive_speed(party))
            elif wish == ECHO:
                party.send(ECHO)
            else:
                handshake.permit(party, Refusal(Reason.PREPARED, self.limits.prepared))
        if wish == END:
            return None
        answer: Callable[[Watch], int] = partial(self._classify, party, publication, ahead)
        if wish == WRITE and self._generations:
            answer = self._generation(self._generations, party, admission, publication, ahead)
        else:
            if wish == PREPARE:
                self._idle.wait(QUIET)
                answer = partial(self._prepare, ahead)
            new = ahead.begins() if wish == PREPARE else not ahead.any
            handshake.answer(party, self._refusal(admission, publication, new=new))
        party.limit(self.limits.text)
        party.hold(self.limits.queue)
        return answer

    def _refusal(
        self, admission: Admission, publication: Publication, tokens: int = 0, *, new: bool
    ) -> Refusal | None:
        """Returns why a text is not admitted, or None. One under a spent key is not counted; one that was
        admitted when it was prepared is not counted again."""
        if not new:
            return admission.resume(tokens)
        return publication.refusal() or admission.admit(tokens) or self._publisher.take(publication)

    def _wish(self, party: Party) -> bytes:
        """Returns what the client wants. One that hangs up here, as after a text of its own that is too long,
        wants no more."""
        try:
            with engine.translated(PeerError, "session"):
                wish = handshake.receive_wish(party, CLASSIFY if self._generations is None else WRITE)
        except GoneError:
            return END
        if self._generations:
            self._generations.forget_complete(party)
        return wish

    def _prepare(self, ahead: Ahead, watch: Watch) -> int:
        """Prepares one map of a text to come."""
        watch("prepare")
        ahead.prepare()
        return 0

    def _generation(
        self,
        sessions: GenerationSessions,
        party: Party,
        admission: Admission,
        publication: Publication,
        ahead: Ahead,
    ) -> Callable[[Watch], int]:
        """Returns what writes a text that the client requests, token by token. Raises RefusedError."""
        request = handshake.receive_request(party, self._program)
        refusal = sessions.refusal(request) or self._refusal(
            admission, publication, request.most, new=not ahead.any
        )
        text = refusal or sessions.open(request)
        handshake.answer(party, text if isinstance(text, Refusal) else None)
        assert not isinstance(text, Refusal)  # or it was raised
        enter = partial(self._input_share, party, publication)

        def write(watch: Watch) -> int:
            with self._idle.text():
                sessions.serve(party, request, text, enter, self.limits, watch, admission, ahead.take())
            return 1

        return write

    def _classify(self, party: Party, publication: Publication, ahead: Ahead, watch: Watch) -> int:
        """Classifies one text: this party's shares of the input are zero, its shares of the answer go to the
        client."""
        run = Run(party.native, self._program, model=self._model, watch=watch, prepared=ahead.take())
        with self._idle.text():
            party.native.reveal(run.answer(self._input_share(party, publication, self.plan.tokens)))
        return 1

    def _input_share(self, party: Party, publication: Publication, rows: int) -> Words:
        """Returns this party's share of what so many rows of the model start from."""
        if publication.table is None:
            return zeros(self._program, rows)
        return party.native.lookup_served(publication.table, rows)
