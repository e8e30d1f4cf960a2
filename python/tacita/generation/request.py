"""What is generated, however: the options of a call, checked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tacita.errors import InputError
from tacita.planning.options import CACHING, GAP, TOKEN
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import BUMBLEBEE
from tacita.texts.embed import Text
from tacita.texts.generation import Choice, TextOptions

BACKENDS = ("plain", "sim", "ckks")
ONE_TEXT = ("thor", "leaf")  # schemes on ciphertexts that go on behind a text
ROOM = 128  # tokens that a text may have


@dataclass(frozen=True)
class Request(TextOptions):
    """What is generated, however: see `generate`. texts: of calibration, None for the model's own or the
    package's. scheme: on ciphertexts, one of `ONE_TEXT`, or None for the model in the clear. prices: of what
    ciphertexts will take, see `PlanRequest`. reveal, gap: what the client of ciphertexts gets, see
    `PlanRequest`; None for logits. cache: whether the server of ciphertexts keeps rows of earlier tokens, see
    `PlanRequest`. show_anyway: tokens that are not sound, too."""

    backend: str = "plain"
    tokens: int = ROOM
    texts: Sequence[Text] | None = None
    begin: str = ""
    scheme: str | None = None
    preset: str = "n16"
    allow_insecure: bool = False
    prices: Prices | None = field(default=None, hash=False)
    reveal: str | None = None
    gap: float = GAP
    cache: bool = False
    show_anyway: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend not in BACKENDS:
            raise InputError(f"generate: backend {self.backend!r}", hint=f"supported: {', '.join(BACKENDS)}")
        if self.scheme not in (None, BUMBLEBEE, *ONE_TEXT):
            names = ", ".join((*ONE_TEXT, BUMBLEBEE))
            raise InputError(f"generate: scheme {self.scheme!r:.40}", hint=f"of one text: {names}")
        if self.backend == "ckks" and not self.on_ciphertexts:
            raise InputError(
                "generate: backend ckks without ciphertexts", hint="--scheme thor; two parties by --connect"
            )
        if self.begin and self.on_ciphertexts:
            raise InputError("generate: a beginning on ciphertexts", hint="begin the prompt with it")
        if self.cache and self.scheme != CACHING:
            named = f"scheme {self.scheme}" if self.on_ciphertexts else "no ciphertexts"
            hint = f"--scheme {CACHING}; floats and two parties keep rows anyway"
            raise InputError(f"generate: a cache with {named}", hint=hint)
        self._require_revealed()

    def _require_revealed(self) -> None:
        if self.reveal and not self.on_ciphertexts:
            hint = "--scheme thor or leaf; of two parties the client gets the token alone"
            raise InputError(f"generate: what to reveal without ciphertexts, {self.reveal!r:.40}", hint=hint)
        if self.reveal == TOKEN and self.choice != Choice(seed=self.choice.seed):
            hint = "tokens by chance take --reveal logits"
            raise InputError("generate: a temperature or top_k without logits", hint=hint)

    @property
    def on_ciphertexts(self) -> bool:
        """Whether a circuit on ciphertexts gives the tokens, on one of its backends."""
        return self.scheme in ONE_TEXT
