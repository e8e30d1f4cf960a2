"""Hostile plans: every altered field, with the hash made right again, is refused by name, and never by
another exception."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_plans import (
    CALIBRATED,
    CIRCUIT_TABLE,
    FILE_TABLE,
    MODEL_TABLE,
    NORM,
)
from plan_changes import Change, nested, put
from plans import altered, model, real_plan, rehashed

from tacita import resources
from tacita.client.session import Client
from tacita.errors import FileError, PlanError, ResourceError
from tacita.planning.circuit import circuit_of, require_circuit, require_model
from tacita.plans.plan import Plan, parse
from tacita.plans.prices.formulas import file_bytes
from tacita.plans.public_folder import public_of

SCHEMES = ("thor", "arion")
MUTATIONS = {"thor": 1000, "arion": 300}  # one text is quicker


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_real_plan_is_accepted(scheme: str) -> None:
    plan = real_plan(scheme)
    assert parse(plan.to_text(), "here") == plan
    assert circuit_of(plan, model()) is circuit_of(plan, model())


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in FILE_TABLE], ids=[row[0] for row in FILE_TABLE]
)
def test_what_no_plan_can_say_is_refused_when_it_is_read(change: Change, message: str) -> None:
    with pytest.raises(FileError, match=message):
        parse(altered(real_plan(), change), "here")


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in CIRCUIT_TABLE], ids=[row[0] for row in CIRCUIT_TABLE]
)
def test_what_no_circuit_is_built_from_is_refused_by_the_server(change: Change, message: str) -> None:
    """A client reads none of it: it would take the approximations and the models' names."""
    with pytest.raises(FileError, match=message):
        require_circuit(parse(altered(real_plan(), change), "here"))


def test_the_server_checks_the_circuit_before_it_builds_it() -> None:
    change = put(*CALIBRATED, NORM, "variance", value=[-1.0, 1.0])
    with pytest.raises(FileError, match="interval of variance"):
        circuit_of(parse(altered(real_plan(), change), "here", real_plan().salt), model())


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in MODEL_TABLE], ids=[row[0] for row in MODEL_TABLE]
)
def test_what_the_model_contradicts_is_refused_by_the_server(change: Change, message: str) -> None:
    """A client, who has no weights, cannot see it: docs/threat-model.md says what such a plan makes it do."""
    plan = parse(altered(real_plan(), change), "here", real_plan().salt)
    with pytest.raises(PlanError, match=message):
        circuit_of(plan, model())


def test_the_name_of_the_models_folder_may_differ() -> None:
    require_model(real_plan(), dataclasses.replace(model(), name="another-folder"))


def test_a_name_or_label_that_a_terminal_would_obey_does_not_get_into_a_plan() -> None:
    from tacita.planning.circuit import model_info

    assert (
        model_info(dataclasses.replace(model(), name="\x1b[2Jx" + "y" * 300), "").name == "?[2Jx" + "y" * 195
    )


@pytest.mark.parametrize(("step", "what"), [("keygen", "evaluation_keys"), ("encrypt", "request")])
def test_disks_are_checked_with_the_clients_own_figures(
    step: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prediction says one byte, and the hash does not cover it."""
    text = altered(real_plan(), put("prediction", "bytes", what, value=1))
    client = Client(public_of(parse(text, "here"), model()), tmp_path, allow_insecure=True)
    need = file_bytes(real_plan())[what]
    assert need > 100_000
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: type("Usage", (), {"free": need - 1}))
    with pytest.raises(ResourceError, match="needs"):
        client.keygen() if step == "keygen" else client.encrypt(hidden_states=[[0.0] * 16] * 8)


def test_own_figures_are_the_predictions_of_an_honest_plan() -> None:
    for scheme in SCHEMES:
        plan = real_plan(scheme)
        assert file_bytes(plan).items() <= plan.prediction.bytes.items()


def test_a_number_too_large_for_a_float_and_a_key_that_comes_twice_are_refused() -> None:
    text = real_plan().to_text()
    for old, new in (
        ('"decimals": 3', '"decimals": 1e999'),
        ('"decimals": 3', '"decimals": 3, "decimals": 3'),
    ):
        with pytest.raises(FileError, match=r"not finite|twice"):
            parse(text.replace(old, new), "here")
    with pytest.raises(FileError, match="not a complete plan"):
        parse(text.replace('"decimals": 3', '"decimals": ' + "9" * 5000), "here")


@pytest.mark.parametrize(
    ("scheme", "packing"), [("thor", "rows"), ("thor", "multidiagonal"), ("arion", None)]
)
def test_random_edits_end_in_a_valid_plan_or_in_our_errors(scheme: str, packing: str | None) -> None:
    """Whatever is edited: what is read also builds its circuit, or is refused with a PlanError that says
    why."""
    rng, plan = random.Random(9), real_plan(scheme, packing=packing)
    text = plan.to_text()
    refused = accepted = 0
    for _ in range(MUTATIONS[scheme]):
        edited = json.loads(text)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            edit(edited, rng)
        try:
            found = parse(rehashed(edited), "here")
            accepted += 1
            if accepted % 8 == 0:
                circuit_of(replace(found, salt=plan.salt), model())
        except (FileError, PlanError):
            refused += 1
    assert refused > MUTATIONS[scheme] // 2
    assert accepted > MUTATIONS[scheme] // 50  # predictions, slightly other numbers


def edit(data: Any, rng: random.Random) -> None:
    """One random place of the data gets another value, loses one or gains one."""
    at = rng.choice([container for container in containers(data) if container])
    key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
    action = rng.random()
    if action < 0.1:
        del at[key]
    elif action < 0.2 and isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    elif action < 0.6 and type(at[key]) in (int, float):
        at[key] = type(at[key])(at[key] * rng.choice((-1, 0, 0.5, 1.001, 2, 1000)))
    else:
        at[key] = copy.deepcopy(rng.choice(VALUES))


VALUES = (
    None, True, False, 0, 1, -1, 13, 14, 1 << 31, 1 << 53, 10**40, 0.0, -0.5, 1e-300, 1e300,
    float("nan"), float("inf"), "", "x", "real", "complex", "\x1b[2J", "y" * 300,
    [], {}, [0], [[]], [1.0, 2.0], {"x": 1}, {"kind": "chebyshev"},
    nested(100),
)  # fmt: skip


def containers(data: Any) -> Iterator[Any]:
    """All objects and lists."""
    todo = [data]
    while todo:
        at = todo.pop()
        if isinstance(at, dict | list):
            yield at
            todo += at.values() if isinstance(at, dict) else at


def test_an_error_names_the_value_and_the_limit() -> None:
    for change, message in (
        (put("model", "layers", value=10**6), r"model: layers 1000000 \(from 1 to 48\) out of range"),
        (put("request", 0, "kind", value="x"), r"request hidden: kind 'x' \(one of real\)"),
        (put("prediction", "error", "share", value=1.0), r"share of texts 1\.0 \(above 0, up to 1\)"),
    ):
        with pytest.raises(FileError, match=message):
            parse(altered(real_plan(), change), "here")


def test_loading_goes_through_the_same_check(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(altered(real_plan(), put("decimals", value=30)))
    with pytest.raises(FileError, match=r"plan\.json: decimals"):
        Plan.load(path)
