"""Plan files: round trip, hash, and every way in which a file can be wrong."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from plans import real_plan
from random_checkpoint import make_random_checkpoint

from tacita.errors import FileError, InputError
from tacita.layouts.runs import Layout, Request, Response, Tensor
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import LINKS, LinkSpeed, link_of
from tacita.plans.error import ErrorBound
from tacita.plans.json_fields import from_json, to_json
from tacita.plans.plan import MAX_BYTES, ModelInfo, PlacedStage, Plan, Prediction, TensorInfo, parse
from tacita.plans.presets import PRESETS
from tacita.plans.scheme import PlanHeader
from tacita.texts.embedding import FrontConfig
from tacita.two_party.planning import make_two_party_plan

FRONT = FrontConfig(30522, 512, 2, 1e-12, True, True)


def make_plan() -> Plan:
    """One field of every type; of no circuit, so no reader accepts it (see `plans.real_plan`)."""
    return Plan(
        model=ModelInfo(
            "tiny",
            "00" * 32,
            "bert",
            2,
            128,
            2,
            512,
            "gelu",
            "pooler",
            False,
            ("negative", "positive"),
            FRONT,
        ),
        tokens=128,
        scheme="rows",
        batch=1,
        lanes=1,
        parameters=PRESETS["n16"],
        circuit={"layers": [{"scores": [-7.25, 10.5]}], "note": None},
        layout=Layout(
            "rows",
            Request(32768, 1, 128, 128, 5.5, {"x": Tensor("hidden", 1, ((0, 0, 128, 256, 128, 128, 1, 1),))}),
            Response(32768, 1, 1, 1, 2, 9.0, ((0, 0),), ((9, 1),), ((7, 0),), ((0, 0, 7, 3, 0),)),
        ),
        answer=9.0,
        stages=(PlacedStage("layer0.scores", ("x",), ("real",), {"x": 5}, {"x": 5, "s": 3}, {"mul": 4}),),
        rotations=((1, 13), (256, 5)),
        request=(TensorInfo("x", 1, 5, "real"), TensorInfo("mask", 1, 13, "real")),
        response=(TensorInfo("logits", 1, 0, "real"),),
        noise=2.0**-20,
        decimals=3,
        prediction=Prediction(
            "here", 2, (1.5,), (1 << 30,), {"evaluate": 1.5}, {"request": 100}, ErrorBound(0.001, 98, 0.99)
        ),
    )


def test_round_trip() -> None:
    plan = real_plan()
    assert parse(plan.to_text(), "here") == plan


def test_hash_covers_everything_but_the_prediction() -> None:
    plan = make_plan()
    other_machine = dataclasses.replace(
        plan, prediction=dataclasses.replace(plan.prediction, machine="there")
    )
    assert other_machine.hash == plan.hash
    assert dataclasses.replace(plan, tokens=64).hash != plan.hash
    assert dataclasses.replace(plan, circuit={}).hash != plan.hash


def test_json_of_every_field_type() -> None:
    plan = make_plan()
    assert from_json(Plan, json.loads(json.dumps(to_json(plan)))) == plan


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not a complete plan"),
        (lambda text: text.replace('"tacita-plan"', '"other"'), "not a plan file"),
        (lambda text: text.replace('"version": 7', '"version": 8'), "plan version 8, this program reads 7"),
        (lambda text: text.replace('"version": 7', '"version": 6'), "plan version 6, this program reads 7"),
        (lambda text: text.replace('"tokens": 128', '"tokens": 64'), "does not match its hash"),
        (lambda text: text.replace('"tokens": 128', '"tokens": "128"'), "expected int, found str"),
        (lambda text: text.replace('"tokens": 128', '"length": 128'), "unknown field 'length'"),
        (lambda text: text.replace('"tokens": 128', '"tokens": true'), "expected int, found bool"),
        (lambda _: "[" * 100_000, "not a complete plan"),
        (lambda _: "[]", "not a plan file"),
    ],
)
def test_damaged_plans_are_refused(damage, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileError, match=message):
        parse(damage(make_plan().to_text()), "here")


def test_files_are_capped_and_named(tmp_path: Path) -> None:
    big = tmp_path / "plan.json"
    with big.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(FileError, match=r"plan\.json: .* bytes, a plan has at most"):
        Plan.load(big)
    with pytest.raises(FileError, match="cannot be read as a plan"):
        Plan.load(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="cannot be read as a plan"):
        Plan.load(tmp_path / "binary.json")


# What plans of both kinds say in the same words, and the links that their predictions are carried over.

MODEL = make_random_checkpoint()
TWO_PARTIES = make_two_party_plan(MODEL, PlanRequest(tokens=16, texts=["a fine film", "the plot is dull"]))
HEADS: list[PlanHeader] = [real_plan(), TWO_PARTIES]


@pytest.mark.parametrize("plan", HEADS, ids=["ciphertexts", "two parties"])
def test_a_plan_says_whose_it_is_and_what_a_request_takes(plan: PlanHeader) -> None:
    assert plan.family == "bert" and len(plan.labels) == 2 and not plan.normalise
    assert plan.batch == 1 and plan.tokens in (8, 16) and plan.decimals == 3
    assert len(plan.hash) == 64 and plan.answer > 0.0
    here, sent = plan.predicted_seconds(), plan.predicted_bytes()
    assert here > 0.0 and sent > 0
    assert here < plan.predicted_seconds(LINKS["LAN"]) < plan.predicted_seconds(LINKS["WAN"])
    slow = plan.predicted_seconds(LinkSpeed(1e6, 0.0))
    assert slow - here == pytest.approx(8e-6 * sent, rel=1e-5)


def test_schemes_and_names_are_the_plans_own() -> None:
    assert [plan.scheme for plan in HEADS] == ["thor", "bumblebee"]
    assert (TWO_PARTIES.name, TWO_PARTIES.labels) == (MODEL.name, MODEL.config.labels)


def test_what_a_plan_says_is_no_part_of_its_bytes() -> None:
    data = TWO_PARTIES.to_bytes()
    assert b'"version":3' in data and b'"scheme"' not in data and b'"batch"' not in data
    assert '"name"' in real_plan().to_text() and '"predicted_bytes"' not in real_plan().to_text()


def test_links_by_name_and_by_numbers() -> None:
    assert link_of("lan") == link_of("LAN") == LINKS["LAN"]
    assert link_of("wan") == LINKS["WAN"]
    assert link_of("100,20") == LinkSpeed(1e8, 0.02)


@pytest.mark.parametrize("text", ["", "lam", "100", "0,1", "-1,1", "1,-1", "nan,1", "inf,1", "1,2,3"])
def test_other_links_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="no link"):
        link_of(text)
