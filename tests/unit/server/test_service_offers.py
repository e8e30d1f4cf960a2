"""Plans that a service keeps: over a restart and a release, and when one is made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from random_checkpoint import make_random_checkpoint
from tiny_decoders import llama

from tacita.data import DEFAULT_MODEL
from tacita.errors import PlanError
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.schemes.base import save, silent
from tacita.server.core import offers as core
from tacita.server.core.offers import MADE_OF, offers_of

REQUEST = PlanRequest(tokens=16, preset="insecure_toy_n11", texts=["a fine film"])
MODEL = make_random_checkpoint(layers=1)


def plan_of(folder: Path, request: PlanRequest = REQUEST, scheme: str = "thor") -> str:
    """Returns the hash of the plan that a server of this folder offers."""
    offers = offers_of(MODEL, DEFAULT_MODEL, [scheme], request, folder, silent, insecure=True)
    return offers.named[MODEL.name, scheme].plan.hash


def change(folder: Path, scheme: str = "thor", **values: object) -> None:
    path = folder / "offers" / MODEL.name / scheme / MADE_OF
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_plan_stays_over_a_release_and_clients_keep_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan_of(tmp_path)
    monkeypatch.setattr(core, "__version__", "0.2.0")
    assert plan_of(tmp_path) == first
    assert plan_of(tmp_path, replace(REQUEST, nearest=5)) != first


def test_a_request_of_a_release_with_fewer_fields_is_the_same(tmp_path: Path) -> None:
    first = plan_of(tmp_path)
    path = tmp_path / "offers" / MODEL.name / "thor" / MADE_OF
    fields = json.loads(path.read_text())["plan_request"]
    change(tmp_path, plan_request={name: value for name, value in fields.items() if name != "nearest"})
    assert plan_of(tmp_path) == first
    assert plan_of(tmp_path, replace(REQUEST, nearest=5)) != first


@pytest.mark.parametrize("damage", ["version", "circuit", "parameters"])
def test_a_plan_that_this_release_cannot_serve_is_made_again(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, path = plan_of(tmp_path), tmp_path / "offers" / MODEL.name / "thor" / "plan.json"
    if damage == "version":
        path.write_text(path.read_text().replace('"version": 7', '"version": 6'))
    else:
        name, where = ("circuit_of", core) if damage == "circuit" else ("parameters", core.engine)

        def refuse(*given: object, **more: object) -> None:
            raise PlanError(f"{damage}: another one than the plan says", hint="make it again")

        monkeypatch.setattr(where, name, refuse)
    monkeypatch.setattr(core, "__version__", "0.2.0")
    assert plan_of(tmp_path) != first


def test_a_plan_that_does_not_say_what_ends_texts_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier releases made such plans of decoders. Nobody could ask them for a text."""
    model = llama()
    request = replace(REQUEST, scheme="thor")
    first = core._plan(model, request, tmp_path, silent)
    assert isinstance(first, Plan)
    monkeypatch.setattr(core, "__version__", "0.2.0")
    kept = core.kept_plan(model, request, tmp_path)
    assert kept is not None and kept.hash == first.hash
    save(replace(first, model=replace(first.model, ends=None)), tmp_path / "plan.json")
    assert core.kept_plan(model, request, tmp_path) is None
    again = core._plan(model, request, tmp_path, silent)
    assert again.ends == () and again.hash != first.hash  # of another salt


def test_a_two_party_plan_is_of_one_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys belong to it, and both sides run its program as it is written."""
    plan_of(tmp_path, scheme="bumblebee")
    made_of = tmp_path / "offers" / MODEL.name / "bumblebee" / MADE_OF
    monkeypatch.setattr(core, "__version__", "0.2.0")
    plan_of(tmp_path, scheme="bumblebee")
    assert json.loads(made_of.read_text())["release"] == "0.2.0"


def test_an_offer_says_where_its_task_is_not_the_models(tmp_path: Path) -> None:
    """Ciphertexts tell the likeliest token alone, two parties write at a temperature."""
    request = replace(REQUEST, preset="insecure_toy_n10", reveal="token", gap=0.2)
    found = offers_of(
        llama(layers=1), tmp_path, ["bumblebee", "thor"], request, tmp_path, silent, insecure=True
    )
    (model,) = found.models
    assert (model.task, [offer.task for offer in model.offers]) == ("next", ["", "choice"])
