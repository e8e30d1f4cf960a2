"""Which packing a plan is made for: by name, by estimate, by what a plan says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_changes import Change, copied, drop, put
from plans import altered, model, real_plan
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.estimate import why
from tacita.errors import FileError, InputError, PlanError
from tacita.planning.circuit import circuit_of, require_circuit
from tacita.plans.plan import Plan, parse
from tacita.plans.public_folder import open_public
from tacita.plans.scheme import packings_of, shape_of

TEXTS = ["a fine film", "the plot is dull", "the film is never boring"]
TOY = {"tokens": 16, "preset": "insecure_toy_n10", "texts": TEXTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(make_random_checkpoint(layers=1), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return load(folder)


@pytest.fixture(scope="module")
def plan(checkpoint: Checkpoint) -> Plan:
    return api.plan(checkpoint, scheme="thor", packing="multidiagonal", **TOY)


def test_the_default_is_rows(checkpoint: Checkpoint) -> None:
    assert api.plan(checkpoint, scheme="thor", **TOY).packing == "rows"
    assert (packings_of("thor", None), packings_of("moai", None)) == (("rows",), ("columns",))
    assert packings_of("thor", "auto") == ("rows", "multidiagonal")


@pytest.mark.parametrize("backend", ["plain", "sim"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_plan_on_diagonals_answers_as_the_float_model(
    plan: Plan, checkpoint: Checkpoint, text: str, backend: str
) -> None:
    found = api.classify_locally(plan, checkpoint, text, backend=backend)
    wanted = api.reference_logits(plan, checkpoint, text)
    assert np.abs(np.array(found.logits) - wanted).max() < 0.02
    assert not found.warnings


def test_plan_and_public_folder_carry_the_packing(plan: Plan, checkpoint: Checkpoint, tmp_path: Path) -> None:
    again = parse(plan.to_text(), "here")
    assert (again.packing, again.scheme, again.hash) == ("multidiagonal", "thor", plan.hash)
    assert shape_of(again).packing == "multidiagonal"
    api.publish(plan, checkpoint, tmp_path)
    assert open_public(tmp_path).plan.packing == "multidiagonal"


def test_auto_takes_the_quicker_and_says_both_figures(checkpoint: Checkpoint) -> None:
    choice = api.choose_plan(checkpoint, scheme="thor", packing="auto", **TOY)
    seconds = {option.packing: option.seconds(choice.objective) for option in choice.options}
    assert seconds.keys() == {"rows", "multidiagonal"}
    assert choice.plan.packing == min(seconds, key=seconds.__getitem__)
    said = why(choice, "packing")
    assert said.startswith(f"packing auto: thor in {choice.plan.packing} (1 text: ")
    assert "thor in rows" in said
    assert "thor in multidiagonal" in said


def test_a_scheme_is_chosen_among_those_that_have_the_packing(checkpoint: Checkpoint) -> None:
    choice = api.choose_plan(checkpoint, scheme="auto", packing="multidiagonal", **TOY)
    assert [option.name for option in choice.options] == ["thor"]
    assert choice.plan.packing == "multidiagonal"
    with pytest.raises(InputError, match="on packing 'diagonal'"):
        api.choose_plan(checkpoint, scheme="auto", packing="diagonal", **TOY)


def test_auto_takes_what_is_possible(checkpoint: Checkpoint) -> None:
    """Eight tokens are too few for heads of sixteen features."""
    wide = make_random_checkpoint(hidden=32)
    choice = api.choose_plan(wide, scheme="thor", packing="auto", **{**TOY, "tokens": 8})
    assert choice.plan.packing == "rows"
    assert "16 features in texts of 8 tokens" in choice.options[1].refused


@pytest.mark.parametrize(
    ("scheme", "packing"), [("thor", "diagonal"), ("thor", "columns"), ("arion", "rows"), ("thor", "")]
)
def test_an_unknown_packing_is_refused(checkpoint: Checkpoint, scheme: str, packing: str) -> None:
    with pytest.raises(InputError, match=f"scheme {scheme} on packing '{packing}'") as refusal:
        api.plan(checkpoint, scheme=scheme, packing=packing, **TOY)
    assert refusal.value.hint


def test_the_commands_take_it(folder: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    toy = ["--model", str(folder), "--tokens", "16", "--preset", "insecure_toy_n10", "--texts", str(texts)]
    status, out, _ = run("estimate", *toy, "--scheme", "thor", "--packing", "multidiagonal")
    assert (status, "thor in multidiagonal" in out) == (0, True)
    status, out, _ = run("plan", *toy, "--packing", "auto", "--work", str(tmp_path / "work"))
    assert (status, "packing auto: thor in " in out) == (0, True)
    status, _, err = run("plan", *toy, "--packing", "diagonals", "--work", str(tmp_path / "work"))
    assert (status, "diagonals" in err) == (2, True)


@pytest.fixture(scope="module")
def rounds(checkpoint: Checkpoint) -> Plan:
    return api.plan(checkpoint, scheme="thor", packing="multidiagonal", functions="thor", **TOY)


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_softmax_in_rounds_answers_as_the_float_model(
    rounds: Plan, checkpoint: Checkpoint, backend: str
) -> None:
    for text in TEXTS:
        found = api.classify_locally(rounds, checkpoint, text, backend=backend)
        wanted = api.reference_logits(rounds, checkpoint, text)
        assert np.abs(np.array(found.logits) - wanted).max() < 0.02
        assert not found.warnings


def test_rounds_are_stages_and_survive_the_plans_file(rounds: Plan, plan: Plan) -> None:
    again = parse(rounds.to_text(), "here", rounds.salt)
    assert again.circuit == rounds.circuit
    names = {stage.name for stage in rounds.stages} - {stage.name for stage in plan.stages}
    assert {name.rpartition(".")[2] for name in names} == {"sums1", "inverse1", "squares1"}
    assert "rounds" not in plan.circuit["specs"]["nodes"]["layer0.attention"]


FITTED, CALIBRATED = ("circuit", "specs", "nodes", "layer0.attention"), ("circuit", "calibration")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop(*FITTED, "rounds"), "rounds of softmax"),
        (drop(*FITTED, "rounds", 0, "room"), "fields of the approximations"),
        (put(*FITTED, "rounds", 0, "room", value=0.5), "stored over"),
        (put(*FITTED, "rounds", 0, "steepest", value=0.0), "bound of steepest"),
        (put(*FITTED, "rounds", 0, "room", value="wide"), "fields of the approximations"),
        (put(*CALIBRATED, "rounds", value={"layer0.attention": 2}), "rounds of softmax"),
        (put(*CALIBRATED, "rounds", value={"layer0.attention": 9}), "rounds"),
    ],
    ids=["none", "no room", "too little room", "a steepest of 0", "room of text", "others", "too many"],
)
def test_what_rounds_are_stored_over_is_checked(rounds: Plan, change: Change, message: str) -> None:
    require_circuit(rounds)
    with pytest.raises(FileError, match=message):
        require_circuit(parse(altered(rounds, change), "here", rounds.salt))


@pytest.mark.parametrize("scheme", ["arion", "moai"])
def test_rounds_of_a_batch_refresh_inside_a_stage(scheme: str) -> None:
    """A ciphertext of row means for each head, counted and priced beside the bootstraps before stages."""
    checkpoint = make_random_checkpoint()
    none, one = (api.plan(checkpoint, scheme=scheme, functions=f, **TOY) for f in ("tacita", "thor"))
    attends = [next(s for s in plan.stages if s.name == "layer0.attention.attend") for plan in (none, one)]
    assert [stage.through for stage in attends] == [0, checkpoint.config.heads]
    assert one.bootstraps == sum(len(stage.kinds) + stage.through for stage in one.stages)
    for text, found in zip(
        TEXTS, api.classify_batch_locally(one, checkpoint, TEXTS, backend="sim"), strict=True
    ):
        wanted = api.reference_logits(one, checkpoint, text)
        assert np.abs(np.array(found.logits) - wanted).max() < 0.02 and not found.warnings


def test_auto_weighs_all_packings_that_have_rounds(checkpoint: Checkpoint) -> None:
    choice = api.choose_plan(checkpoint, scheme="thor", packing="auto", functions="thor", **TOY)
    assert {option.packing: option.refused for option in choice.options} == {"rows": "", "multidiagonal": ""}


HOSTILE: dict[str, tuple[Change, str]] = {
    "of another scheme": (put("scheme", value="arion"), "packing out of range"),
    "of another packing": (put("layout", "packing", value="columns"), "packing out of range"),
    "unknown": (put("layout", "packing", value="diagonals"), "packing out of range"),
    "slots": (copied(("tokens",), ("layout", "request", "slots")), "sizes of the request out of range"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_is_refused(name: str) -> None:
    change, message = HOSTILE[name]
    with pytest.raises(FileError, match=message):
        parse(altered(real_plan(packing="multidiagonal"), change), "here")


def test_a_plan_with_other_rotation_keys_is_refused_by_the_server() -> None:
    plan = real_plan(packing="multidiagonal")
    circuit_of(plan, model())
    fewer = parse(altered(plan, put("rotations", value=[list(r) for r in plan.rotations[1:]])), "here")
    with pytest.raises(PlanError, match="for rotation keys"):
        circuit_of(replace(fewer, salt=plan.salt), model())
