"""The schemes as objects: one list, answers in the clear and for real, and which one auto takes over which
link.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.errors import CheckpointError, FileError, InputError, PlanError, ResourceError
from tacita.planning.request import Objective, PlanRequest
from tacita.plans.commitment import LinkSpeed, link_of
from tacita.plans.plan import Plan
from tacita.plans.scheme import NAMES
from tacita.progress import Progress
from tacita.schemes import base
from tacita.schemes.base import AnyPlan, Place
from tacita.schemes.choose import UNWEIGHED, choose_plan
from tacita.schemes.registry import REGISTRY, scheme_of

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
MODEL = make_random_checkpoint(layers=1)
TOY = {"tokens": 16, "preset": "insecure_toy_n10", "texts": TEXTS}
FAST, SLOW = LinkSpeed(1e12, 0.0), LinkSpeed(1e3, 1.0)
FILES = ("thor", "arion", "moai")


@pytest.fixture(scope="module")
def plans() -> dict[str, AnyPlan]:
    return {name: api.plan(MODEL, PlanRequest(scheme=name, **TOY)) for name in NAMES}


def test_there_is_one_list_of_schemes() -> None:
    assert tuple(REGISTRY) == NAMES
    assert [scheme.name for scheme in REGISTRY.values()] == list(NAMES)
    assert [name for name, scheme in REGISTRY.items() if scheme.several] == ["arion", "moai"]
    assert [name for name, scheme in REGISTRY.items() if scheme.connected] == ["bumblebee"]


@pytest.mark.parametrize("name", NAMES)
def test_a_scheme_plans_and_says_what_a_run_costs(name: str, plans: dict[str, AnyPlan]) -> None:
    plan, scheme = plans[name], scheme_of(name)
    assert (plan.scheme, plan.tokens, plan.batch > 1) == (name, 16, scheme.several)
    found = scheme.estimate(plan, 100)
    assert (found["scheme"], found["inputs"]) == (name, 100)
    requests = -(-100 // plan.batch)
    assert found["wall_seconds"] == pytest.approx(requests * plan.predicted_seconds())
    assert scheme.estimate(plan, 100, link=SLOW)["wall_seconds"] > found["wall_seconds"]


@pytest.mark.parametrize("backend", ["plain", "sim"])
@pytest.mark.parametrize("name", NAMES)
def test_a_scheme_answers_in_the_clear(name: str, backend: str, plans: dict[str, AnyPlan]) -> None:
    plan = plans[name]
    for text in TEXTS[:2]:
        answer = api.classify_locally(plan, MODEL, text, backend=backend)
        assert np.abs(answer.vector - api.reference_logits(plan, MODEL, text)).max() < 0.03
        assert answer.label == plan.labels[int(np.argmax(answer.logits))]


@pytest.mark.parametrize("name", ["thor", "bumblebee"])
def test_a_backend_that_is_none_in_the_clear_is_refused(name: str, plans: dict[str, AnyPlan]) -> None:
    with pytest.raises(InputError, match="no backend 'ckks' in the clear") as caught:
        api.classify_locally(plans[name], MODEL, TEXTS[0], backend="ckks")
    assert "one of plain, sim" in caught.value.hint


def test_a_hidden_embedding_has_no_answers_in_the_clear() -> None:
    plan = api.plan(MODEL, PlanRequest(scheme="bumblebee", embeddings="hidden", **TOY))
    with pytest.raises(InputError, match="a hidden embedding"):
        api.classify_locally(plan, MODEL, TEXTS[0], backend="sim")


@pytest.mark.native
@pytest.mark.parametrize("name", ["arion", "bumblebee"])
def test_a_scheme_answers_for_real(name: str, plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    plan = plans[name]
    with scheme_of(name).private(plan, MODEL, Place(tmp_path, threads=1, allow_insecure=True)) as private:
        answers, seconds = private.answer(TEXTS[: plan.batch], "")
    for text, answer in zip(TEXTS, answers, strict=False):
        assert np.abs(answer.vector - api.reference_logits(plan, MODEL, text)).max() < 0.03
    assert seconds["evaluate"] > 0.0
    assert set(private.seconds) == (set() if name == "bumblebee" else {"keygen"})


@pytest.mark.native
def test_insecure_parameters_are_refused_unless_allowed(plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    with (
        pytest.raises(PlanError, match="insecure"),
        scheme_of("thor").private(plans["thor"], MODEL, Place(tmp_path)),
    ):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.native
def test_a_folder_takes_one_run_at_a_time(plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    """Two runs that write their requests to one file could get each other's answers."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    (link := tmp_path / "link").symlink_to(tmp_path / "work")
    for folder in (tmp_path / "work", link):
        place = Place(folder, threads=1, allow_insecure=True, keep_key=True)
        with scheme_of("thor").private(plans["thor"], MODEL, place):
            other = scheme_of("arion").private(plans["arion"], MODEL, place)
            with pytest.raises(ResourceError, match="another run works there"), other:
                raise AssertionError


def test_without_a_link_auto_leaves_bumblebee_out_and_says_so() -> None:
    choice = choose_plan(MODEL, PlanRequest(scheme="auto", inputs=2, **TOY))
    (left_out,) = (option for option in choice.options if option.plan is None)
    assert (left_out.scheme, left_out.refused) == ("bumblebee", UNWEIGHED)
    assert choice.plan.scheme in FILES


@pytest.mark.parametrize(("link", "connected"), [(FAST, True), (SLOW, False)])
def test_over_a_link_auto_weighs_bumblebee(link: LinkSpeed, connected: bool) -> None:
    """Everything crosses the link: a request and its answer too."""
    seen: list[Progress] = []
    request = PlanRequest(scheme="auto", link=link, **TOY | {"preset": "insecure_toy_n12"})
    choice = choose_plan(MODEL, request, seen.append)
    assert [option.scheme for option in choice.options if option.plan is None] == []
    bumblebee = next(option for option in choice.options if option.scheme == "bumblebee")
    assert bumblebee.plan is not None
    assert bumblebee.seconds(Objective.latency) == bumblebee.plan.predicted_seconds(link)
    assert (choice.plan.scheme == "bumblebee") == connected
    assert [now.stage for now in seen if now.stage == "calibrate bumblebee"]
    assert (seen[-1].stage, seen[-1].left) == ("done", 0.0)


def test_auto_passes_over_two_parties_where_they_are_not_possible() -> None:
    """More tokens than the model has positions."""
    model = make_random_checkpoint(layers=1, positions=12)
    choice = choose_plan(model, PlanRequest(scheme="auto", link=FAST, **TOY))
    refused = next(option for option in choice.options if option.scheme == "bumblebee").refused
    assert "the model has 12 positions" in refused


def test_a_scheme_that_was_named_needs_no_link() -> None:
    choice = choose_plan(MODEL, PlanRequest(scheme="bumblebee", packing="auto", **TOY))
    assert [option.scheme for option in choice.options] == ["bumblebee"]


def test_a_link_decides_how_transfers_are_made() -> None:
    request = PlanRequest(scheme="bumblebee", **TOY)
    kinds = {api.plan(MODEL, request, link=link_of(text)).correlations for text in ("100000,0", "1,100")}
    assert kinds == {"ferret", "softspoken"}


@pytest.mark.parametrize("name", ["thor", "bumblebee"])
def test_plans_of_both_kinds_are_files(name: str, plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    base.save(plans[name], path)
    found = base.load(path)
    assert (found, found.hash) == (plans[name], plans[name].hash)
    assert path.with_name("weights.salt").exists() == (name == "thor")


def test_who_expects_a_plan_of_ciphertexts_is_told_of_the_other_kind(
    plans: dict[str, AnyPlan], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    base.save(plans["bumblebee"], path)
    with pytest.raises(FileError, match="a plan of two parties, who pass no files"):
        Plan.load(path)
    path.write_text(path.read_text()[:-1])
    with pytest.raises(FileError, match="two-party plan: damaged"):
        base.load(path)


def test_what_two_parties_need_is_not_published(plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bumblebee answers over a connection"):
        api.publish(plans["bumblebee"], MODEL, tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_a_server_of_another_model_is_refused(plans: dict[str, AnyPlan], tmp_path: Path) -> None:
    other = make_random_checkpoint(layers=2)
    with pytest.raises(CheckpointError, match="another model"):
        scheme_of("bumblebee").server(plans["bumblebee"], other)
    with pytest.raises(PlanError, match="other weights"):
        scheme_of("thor").server(plans["thor"], other, tmp_path)
