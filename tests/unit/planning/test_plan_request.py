"""A plan request: what is meant where nothing was named, what is refused, and that keywords of calls are its
fields.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest
from random_checkpoint import make_random_checkpoint

import tacita
from tacita import api
from tacita.approx.functions import Functions
from tacita.errors import InputError, PlanError
from tacita.planning.request import Fields, Objective, PlanRequest
from tacita.planning.survey import Subject, phases_of
from tacita.plans.commitment import LinkSpeed
from tacita.plans.presets import PRESETS
from tacita.schemes.base import require_allowed
from tacita.two_party.arithmetic.base import Formats

TEXTS = ["a fine film", "the plot is dull", "never boring , very good"]


def test_the_keywords_of_a_call_are_the_fields_of_a_plan_request() -> None:
    fields = get_type_hints(PlanRequest)
    assert get_type_hints(Fields) == {name: kind for name, kind in fields.items() if name != "scheme"}
    assert {field.name for field in dataclasses.fields(PlanRequest)} == set(fields)


@pytest.mark.parametrize(
    ("fields", "scheme", "goal"),
    [
        ({}, "thor", Objective.latency),
        ({"inputs": 1}, "thor", Objective.latency),
        ({"inputs": 2}, "auto", Objective.throughput),
        ({"inputs": 2, "scheme": "thor"}, "thor", Objective.throughput),
        ({"inputs": 2, "objective": "latency"}, "auto", Objective.latency),
        ({"scheme": "bumblebee"}, "bumblebee", Objective.latency),
    ],
)
def test_what_is_meant_where_nothing_was_named(fields: dict[str, Any], scheme: str, goal: Objective) -> None:
    request = PlanRequest(**fields)
    assert (request.scheme_name, request.goal) == (scheme, goal)


def test_a_choice_of_schemes_has_formats_for_two_parties_alone() -> None:
    request = PlanRequest(scheme="auto", formats=Formats())
    subject = Subject(make_random_checkpoint(layers=1), request, phases_of(lambda _: None, ["thor"]))
    assert subject.on("thor", "rows").request.formats is None
    assert subject.on("bumblebee", None).request.formats == Formats()


def test_what_is_meant_follows_a_changed_request() -> None:
    assert dataclasses.replace(PlanRequest(), inputs=2).scheme_name == "auto"


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"scheme": "thorn"}, "no scheme 'thorn'", "thor, leaf, arion, moai, bumblebee, auto"),
        ({"scheme": ""}, "no scheme ''", "bumblebee"),
        ({"objective": "speed"}, "no objective 'speed'", "throughput, latency"),
        ({"preset": "n18"}, "no preset 'n18'", "leveled, "),
        ({"functions": "nexus"}, "no variant 'nexus'", "tacita, moai, arion, leaf, either, thor"),
        ({"embeddings": "hiden"}, "embeddings 'hiden'", "published, hidden"),
        ({"formats": Formats(gelu="abs6")}, "form 'abs6'", "abs4"),
        ({"formats": Formats()}, "formats of a plan of scheme thor", "scheme bumblebee"),
        ({"formats": Formats(), "scheme": "arion"}, "formats of a plan of scheme arion", "scheme bumblebee"),
        ({"gap": 0.2}, "a gap of 0.2 between logits that the client gets", "reveal 'token'"),
        ({"tokens": 0}, "0 tokens", "at least one"),
        ({"texts": "a fine film"}, "a single string", "a list of sentences"),
        ({"inputs": 0}, "0 texts", "at least one"),
    ],
)
def test_names_and_sizes_that_there_are_not_are_refused(
    fields: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        PlanRequest(**fields)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, [("thor", "rows")]),
        ({"packing": "multidiagonal", "inputs": 2}, [("thor", "multidiagonal")]),
        ({"packing": "auto"}, [("thor", "rows"), ("thor", "multidiagonal")]),
        ({"scheme": "bumblebee"}, [("bumblebee", None)]),
        ({"scheme": "auto", "packing": "columns"}, [("arion", "columns"), ("moai", "columns")]),
        (
            {"scheme": "auto"},
            [
                ("thor", "rows"),
                ("leaf", "coefficients"),
                ("arion", "columns"),
                ("moai", "columns"),
                ("bumblebee", None),
            ],
        ),
    ],
)
def test_schemes_and_packings_to_plan(fields: dict[str, Any], wanted: list[tuple[str, str | None]]) -> None:
    assert list(PlanRequest(**fields).wanted) == wanted


def test_a_scheme_has_an_activation_of_its_own_unless_one_is_named() -> None:
    assert PlanRequest().variants == Functions()
    assert PlanRequest(scheme="leaf").variants == Functions(activation="leaf")
    assert PlanRequest(scheme="leaf", functions="moai").variants == Functions.of("moai")
    assert PlanRequest(scheme="auto").variants == PlanRequest(scheme="bumblebee").variants == Functions()


def test_two_parties_have_no_packing() -> None:
    with pytest.raises(InputError, match="scheme bumblebee on packing 'rows'"):
        PlanRequest(scheme="bumblebee", packing="rows")


def test_a_table_that_is_to_be_hidden_is_published_by_no_plan() -> None:
    """Clients of ciphertexts get it; a choice of schemes has the one that can."""
    model, link = make_random_checkpoint(layers=1), LinkSpeed(1e9, 1e-3)
    small: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": TEXTS}
    with pytest.raises(PlanError, match="hidden table of words in a plan on ciphertexts"):
        api.plan(model, PlanRequest(embeddings="hidden", **small))
    choice = api.choose_plan(model, PlanRequest(scheme="auto", embeddings="hidden", link=link, **small))
    assert [option.scheme for option in choice.options if option.plan] == ["bumblebee"]


def test_a_preset_is_a_ring_or_several() -> None:
    assert list(PlanRequest(preset="n16").rings) == [PRESETS["n16"]]
    assert len(PlanRequest(preset="leveled").rings) > 1


def test_a_plan_request_keeps_no_list_that_others_can_change() -> None:
    texts = list(TEXTS)
    request = PlanRequest(texts=texts)
    texts.clear()
    assert request.texts == tuple(TEXTS)
    assert hash(request) == hash(PlanRequest(texts=TEXTS))


def test_a_quick_plan_has_the_circuit_of_a_whole_one_and_says_how_little_it_tried() -> None:
    model, salt = make_random_checkpoint(layers=1), "ab" * 32
    texts = [" ".join(TEXTS[0].split()[: 1 + i % 3]) for i in range(40)]
    request = PlanRequest(tokens=16, preset="insecure_toy_n10", texts=texts, salt=salt)
    whole, quick = api.plan(model, request), api.plan(model, request, quick=True)
    assert (quick.stages, quick.circuit, quick.rotations) == (whole.stages, whole.circuit, whole.rotations)
    assert quick.noise > 0.0 and quick.prediction.error.texts <= 10 < whole.prediction.error.texts


def test_a_quick_plan_is_none_for_what_is_encrypted() -> None:
    """Rounding hides noise of one draw alone by it."""
    model = make_random_checkpoint(layers=1)
    with pytest.raises(InputError, match="a quick plan of what is encrypted"):
        tacita.classify("a film", model=model, backend="ckks", quick=True, tokens=16)
    with pytest.raises(InputError, match="a quick plan of what is encrypted"):
        require_allowed(PlanRequest(quick=True, preset="insecure_toy_n10"), "ckks", allow_insecure=True)
    require_allowed(PlanRequest(quick=True, scheme="bumblebee"), "ckks", allow_insecure=False)


def test_keywords_make_a_plan_request_or_change_one() -> None:
    model, salt = make_random_checkpoint(layers=1), "ab" * 32
    request = PlanRequest(tokens=16, preset="insecure_toy_n10", texts=TEXTS, salt=salt)
    made = api.plan(model, request)
    assert made == api.plan(model, tokens=16, preset="insecure_toy_n10", texts=TEXTS, salt=salt)
    assert api.plan(model, request, tokens=32, scheme="arion").hash != made.hash
    assert (api.plan(model, request, scheme="bumblebee").scheme, made.scheme) == ("bumblebee", "thor")
    with pytest.raises(TypeError, match="speed"):
        api.plan(model, request, speed=2)  # type: ignore[call-overload]
