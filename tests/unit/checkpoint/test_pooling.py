"""Poolings of embeddings: read from folders as sentence-transformers writes them, and right in every scheme.

The definition that answers are compared with is `bert_by_hand`, which shares no code with the package.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import bert_by_hand
import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder, write_sentence_files

from tacita import api
from tacita.blocks.floats import FloatTensors
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed, from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.cli.app import main
from tacita.errors import CheckpointError, FileError
from tacita.models.layers import POOLINGS
from tacita.models.registry import shapes
from tacita.planning.request import PlanRequest
from tacita.plans.answers import judge, rounded, rounding_step
from tacita.plans.plan import Plan
from tacita.texts.embed import tokenize
from tacita.two_party.model import simulation
from tacita.two_party.plan.check import check
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["a fine film", "the plot is dull , dull , dull", "never boring"]
RINGS = {"thor": "insecure_toy_n10", "arion": "insecure_toy_n9"}
every_pooling = pytest.mark.parametrize("pooling", POOLINGS)
either_length = pytest.mark.parametrize("normalise", [False, True])


def model_of(folder: Path, pooling: str, *, normalise: bool, layers: int = 1) -> Checkpoint:
    """A folder like BGE's, with the weights of a pooler whether they are used or not, read again."""
    made = make_random_checkpoint(layers=layers, labels=())
    write_folder(made, folder, prefix="")
    if pooling != "pooler":
        write_sentence_files(folder, made.config.hidden, pooling, normalise=normalise)
        return load(folder)
    read = load(folder)  # no file can say that a pooler's vector is normalised: only a program can ask for it
    return from_tensors(replace(read.config, normalise=normalise), read.tensors, read.tokenizer)


def by_hand(model: Checkpoint, text: str, pooling: str, *, normalise: bool) -> np.ndarray:
    ids, config = tokenize(model, text)[0], model.config
    options = {"heads": config.heads, "layers": config.layers, "pooling": pooling, "normalise": normalise}
    return bert_by_hand.embedding(model.tensors, ids, **options)


@every_pooling
@either_length
def test_the_float_reference_is_the_definition(pooling: str, normalise: bool, tmp_path: Path) -> None:
    model = model_of(tmp_path, pooling, normalise=normalise, layers=2)
    assert (model.config.pooling, model.config.normalise) == (pooling, normalise)
    for text in TEXTS:
        found = reference(model, *embed(model, text, 16)).logits
        np.testing.assert_allclose(found, by_hand(model, text, pooling, normalise=normalise), atol=1e-9)


@every_pooling
@either_length
@pytest.mark.parametrize("scheme", RINGS)
def test_ciphertext_schemes_answer_as_defined(
    scheme: str, pooling: str, normalise: bool, tmp_path: Path
) -> None:
    model = model_of(tmp_path, pooling, normalise=normalise)
    plan = api.plan(model, tokens=16, preset=RINGS[scheme], scheme=scheme, texts=TEXTS)
    assert (plan.model.pooling, plan.model.normalise) == (pooling, normalise)
    assert plan.prediction.error.bound < 0.01
    for backend in ("plain", "sim"):
        for text in TEXTS[:2]:
            answer = api.classify_locally(plan, model, text, backend=backend)
            wanted = by_hand(model, text, pooling, normalise=normalise)
            assert np.abs(np.array(answer.logits) - wanted).max() < 0.01
            assert answer.warnings == ()


@every_pooling
@either_length
def test_two_parties_answer_as_defined(pooling: str, normalise: bool, tmp_path: Path) -> None:
    model = model_of(tmp_path, pooling, normalise=normalise)
    plan = make_two_party_plan(model, PlanRequest(tokens=16, texts=TEXTS))
    for text in TEXTS:
        hidden, mask = embed(model, text, plan.tokens)
        wanted = by_hand(model, text, pooling, normalise=normalise)
        weights = Weights(model.tensors)
        exact = plan.run(FloatTensors(weights, mask), hidden)[0]
        assert np.abs(np.array(judge(plan, exact).logits) - wanted).max() < 0.0006
        run = simulation(plan, weights, mask)
        fixed = run.floats(hidden)[0]
        assert np.abs(np.array(judge(plan, fixed).logits) - wanted).max() < 0.03
        assert not run.overflows


def test_the_last_layer_runs_on_the_first_token_alone_for_raw_cls(tmp_path: Path) -> None:
    """Its stages on ciphertexts, its projections between two parties."""
    model = model_of(tmp_path, "cls", normalise=True, layers=2)
    plan = api.plan(model, tokens=16, preset=RINGS["thor"], texts=TEXTS)
    names = [stage.name for stage in plan.stages]
    assert "layer1.attention.select" in names and "layer0.attention.select" not in names
    assert not {"pooler.tanh", "mean"} & set(names)
    assert [shapes(model.config, 16).rows[f"layer{i}.norm2"] for i in (0, 1)] == [16, 1]


@pytest.mark.parametrize("pooling", ["pooler", "cls"])
def test_a_tokenizer_without_cls_is_refused(pooling: str) -> None:
    model = make_random_checkpoint(layers=1, labels=(), pooling=pooling)
    tokenizer = type(model.tokenizer).from_str(model.tokenizer.to_str())
    state = json.loads(tokenizer.to_str()) | {"post_processor": None}
    bare = replace(model, tokenizer=type(tokenizer).from_str(json.dumps(state)))
    with pytest.raises(CheckpointError, match=r"adds no \[CLS\]"):
        embed(bare, TEXTS[0], 16)


# What a folder says


def test_an_encoder_without_a_word_uses_its_pooler_or_asks(tmp_path: Path) -> None:
    with_pooler = write_folder(make_random_checkpoint(labels=()), tmp_path / "a")
    assert load(with_pooler).config.pooling == "pooler"
    without = write_folder(make_random_checkpoint(labels=(), pooling="mean"), tmp_path / "b")
    (without / "modules.json").unlink()
    (without / "1_Pooling" / "config.json").unlink()
    with pytest.raises(CheckpointError, match="nothing says") as refused:
        load(without)
    assert "--pooling cls or --pooling mean" in str(refused.value.hint)
    for asked in ("cls", "mean"):
        assert load(without, pooling=asked).config.pooling == asked
    with pytest.raises(CheckpointError, match=r"pooler\.dense\.weight"):
        load(without, pooling="pooler")


def test_the_users_word_goes_before_the_files(tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(labels=()), tmp_path)
    write_sentence_files(folder, 16, "cls", normalise=True)
    assert load(folder).config.pooling == "cls"
    found = load(folder, pooling="mean").config
    assert (found.pooling, found.normalise) == ("mean", True)
    write_sentence_files(folder, 16, "mean", normalise=False, pooling_mode_max_tokens=True)
    assert load(folder, pooling="pooler").config.pooling == "pooler"
    with pytest.raises(CheckpointError, match="pooling 'max'"):
        load(folder, pooling="max")


def test_pooling_without_modules_is_half_a_folder(tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(labels=(), pooling="cls"), tmp_path)
    (folder / "modules.json").unlink()
    with pytest.raises(CheckpointError, match=r"1_Pooling/config\.json without modules\.json"):
        load(folder)
    assert load(folder, pooling="cls").config.pooling == "cls"
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "config_sentence_transformers.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"config_sentence_transformers\.json without modules\.json"):
        load(folder)


def test_a_classifier_uses_what_it_was_trained_on(tmp_path: Path) -> None:
    plain = write_folder(make_random_checkpoint(), tmp_path / "a")
    raw = write_folder(
        make_random_checkpoint(pooling="cls"), tmp_path / "b"
    )  # classifier_pooling, no pooler weights
    assert (load(plain).config.pooling, load(plain, pooling="pooler").config.pooling) == ("pooler", "pooler")
    assert load(raw).config.pooling == "cls"
    for folder, asked in ((plain, "mean"), (plain, "cls"), (raw, "pooler")):
        with pytest.raises(CheckpointError, match="the classifier was trained on"):
            load(folder, pooling=asked)
    write_sentence_files(plain, 16, "mean", normalise=False)
    with pytest.raises(CheckpointError, match="describes another answer"):
        load(plain)
    assert load(plain, pooling="pooler").config.pooling == "pooler"


MODE = "pooling_mode"
NO_CLS = {f"{MODE}_cls_token": False}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (NO_CLS | {f"{MODE}_max_tokens": True}, "max_tokens is not supported: a maximum"),
        (NO_CLS | {f"{MODE}_mean_sqrt_len_tokens": True}, "len_tokens is not supported: its divisor"),
        (NO_CLS | {f"{MODE}_weightedmean_tokens": True}, "weightedmean_tokens is not supported: its weights"),
        (NO_CLS | {f"{MODE}_lasttoken": True}, "lasttoken is not supported: which token"),
        (NO_CLS | {f"{MODE}_first_and_last": True}, "first_and_last is not supported: it is not known"),
        (NO_CLS, "0 poolings are set"),
        ({f"{MODE}_mean_tokens": True}, "2 poolings are set"),
        ({f"{MODE}_cls_token": "yes"}, "cls_token is 'yes'"),
        ({"word_embedding_dimension": 32}, "word_embedding_dimension is 32"),
        ({"embedding_dimension": 32}, "embedding_dimension is 32"),
        ({MODE: "max"}, "max is not supported: a maximum"),
        ({MODE: "mean_sqrt_len_tokens"}, "len_tokens is not supported: its divisor"),
        ({MODE: ["cls", "mean"]}, "2 poolings are set"),
        ({MODE: None}, "None is not supported"),
        ({"word_embedding_dimension": None}, "word_embedding_dimension is None"),
        ({"include_prompt": False}, "include_prompt is False"),
        ({"layers": [-1, -2]}, "unknown field 'layers'"),
    ],
)
def test_poolings_and_fields_that_are_refused(changes: dict, reason: str, tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(labels=()), tmp_path)
    write_sentence_files(folder, 16, "cls", normalise=False, **changes)
    with pytest.raises(CheckpointError, match=reason):
        load(folder)


@pytest.mark.parametrize("way", ["mean", ["mean"]])
def test_newer_files_say_the_same_in_other_fields(tmp_path: Path, way: object) -> None:
    """sentence-transformers 5.4 and later write them."""
    folder = write_folder(make_random_checkpoint(labels=()), tmp_path)
    write_sentence_files(folder, 16, "cls", normalise=True)
    newer = {"embedding_dimension": 16, "pooling_mode": way, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(newer))
    (folder / "2_Normalize").mkdir()
    vector = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
    (folder / "2_Normalize" / "config.json").write_text(json.dumps(vector))
    named = {"Transformer": "base.modules.transformer", "Pooling": "sentence_transformer.modules.pooling"}
    named["Normalize"] = "base.modules.normalize"
    listed = modules(*(f"sentence_transformers.{place}.{kind}" for kind, place in named.items()))
    for module, path in zip(listed, ("", "1_Pooling", "2_Normalize"), strict=True):
        module["path"] = path
    (folder / "modules.json").write_text(json.dumps(listed))
    found = load(folder).config
    assert (found.pooling, found.normalise) == ("mean", True)
    vector["module_input_name"] = "token_embeddings"
    (folder / "2_Normalize" / "config.json").write_text(json.dumps(vector))
    with pytest.raises(CheckpointError, match=r"unknown fields \['module_input_name'\]"):
        load(folder)


def modules(*kinds: str, **paths: str) -> list[dict[str, object]]:
    standard = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"} | paths
    names = [kind if "." in kind else f"sentence_transformers.models.{kind}" for kind in kinds]
    return [
        {"idx": i, "path": standard.get(kind, "x"), "type": n}
        for i, (kind, n) in enumerate(zip(kinds, names, strict=True))
    ]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (modules("Transformer", "Pooling", "Dense", "Normalize"), r"models\.Dense' is not implemented"),
        (modules("Transformer", "Pooling", "LayerNorm"), r"models\.LayerNorm' is not implemented"),
        (modules("custom_st.Transformer", "Pooling"), r"'custom_st\.Transformer' is not implemented"),
        (modules("Transformer", "Normalize", "Pooling"), "modules Transformer, Normalize, Pooling"),
        (modules("Transformer", "Pooling", "Pooling"), "modules Transformer, Pooling, Pooling"),
        (modules("Transformer"), "modules Transformer$"),
        ([], "modules $"),
        ({"0": "Transformer"}, "holds no list of objects"),
        (
            modules("Transformer", "Pooling", Transformer="0_Transformer"),
            "the encoder is in the folder '0_Transformer'",
        ),
        (modules("Transformer", "Pooling", Pooling="../elsewhere"), "is not inside the model's folder"),
        (modules("Transformer", "Pooling", Pooling="/etc"), "is not inside the model's folder"),
        (modules("Transformer", "Pooling", Pooling="."), "is not inside the model's folder"),
        (modules("Transformer", "Pooling", Pooling="outside"), "is not inside the model's folder"),
        (
            modules("Transformer", "Pooling", "Normalize", Normalize="../x"),
            "is not inside the model's folder",
        ),
        (modules("Transformer", "Pooling", Pooling="absent"), r"absent/config\.json: no such file"),
    ],
)
def test_modules_that_are_refused(listed: object, message: str, tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(labels=()), tmp_path / "model")
    write_sentence_files(folder, 16, "cls", normalise=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.json").write_text((folder / "1_Pooling" / "config.json").read_text())
    (folder / "outside").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(CheckpointError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "query"},
            "default_prompt_name is 'query'",
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "truncate_dim is 8"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is True"),
        ("sentence_xlm-roberta_config.json", {"do_lower_case": True}, "do_lower_case is True"),
        ("2_Normalize/config.json", {"p": 1}, r"unknown fields \['p'\]"),
    ],
)
def test_what_would_change_texts_or_vectors_is_refused(
    name: str, content: dict, message: str, tmp_path: Path
) -> None:
    folder = write_folder(make_random_checkpoint(labels=()), tmp_path)
    write_sentence_files(folder, 16, "cls", normalise=True)
    (folder / "2_Normalize").mkdir()
    harmless = {"max_seq_length": 16, "default_prompt_name": None, "do_lower_case": False}
    (folder / name).write_text(json.dumps({} if "Normalize" in name else harmless))
    assert load(folder).config.normalise
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message):
        load(folder)


# Names, numbers, commands


def test_a_normalised_classifier_is_refused() -> None:
    model = make_random_checkpoint(layers=1)
    wrong = replace(model.config, normalise=True)
    with pytest.raises(CheckpointError, match="normalised"):
        from_tensors(wrong, model.tensors)
    plan = make_two_party_plan(model, PlanRequest(tokens=8, texts=TEXTS))
    with pytest.raises(FileError, match="normalisation of a classifier's answer is out of range"):
        check(replace(plan, config=wrong))


@dataclass(frozen=True)
class Steps:
    """As much of a plan as an answer is rounded by."""

    step: float = 0.001
    logit_step: float = 0.001
    normalise: bool = True


def test_steps_follow_the_length() -> None:
    vector = np.array([12.3456, -16.0, 0.0])  # of length 20.2: steps of 0.00005
    assert rounded(Steps(), vector) == (0.6109, -0.7917, 0.0)
    assert rounded(Steps(), vector / 40.0) == (0.61, -0.792, 0.0)  # of length 0.5: of 0.002
    assert rounded(Steps(), np.array([12.3456, -16.001, 0.0])) == (0.61085, -0.79175, 0.0)
    assert rounding_step(Steps(), vector / 39.0) == 0.002
    assert rounding_step(Steps(step=1.0), vector) == 0.05
    assert rounding_step(Steps(step=2.0**-7), vector / 20.2) == 0.0079
    assert rounded(Steps(normalise=False, step=0.5), vector) == (12.346, -16.0, 0.0)
    assert rounded(Steps(), np.zeros(3)) == (0.0, 0.0, 0.0)
    for normalise in (True, False):
        assert all(np.isfinite(rounded(Steps(normalise=normalise), np.full(4, 1.7e308))))


@pytest.mark.parametrize("length", [0.03, 0.7, 1.1, 9.9, 21.0, 150.0])
def test_rounding_hides_noise_after_normalising_as_well_as_before(length: float) -> None:
    """Noise far below the plan's step moves no more numbers than it does without normalising: the step
    follows the length."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=2000)
    values *= length / np.linalg.norm(values)
    noise = 1e-5 * rng.normal(size=values.size)  # the step of 3 decimals is 100 times that
    moved = np.not_equal(rounded(Steps(), values), rounded(Steps(), values + noise))
    assert moved.mean() < 0.02


def command(*arguments: str) -> int:
    return main([*arguments])


def test_commands_take_a_pooling_and_steps_follow_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(make_random_checkpoint(layers=1, labels=()), tmp_path / "model")
    write_sentence_files(folder, 16, "cls", normalise=True)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    common = ["--model", str(folder), "--tokens", "16", "--texts", str(tmp_path / "texts.txt")]
    for pooling in (None, "mean"):
        asked = ["--pooling", pooling] if pooling else []
        work = tmp_path / str(pooling)
        assert command("plan", *common, "--preset", RINGS["thor"], "--work", str(work), *asked) == 0
        plan = Plan.load(work / "plan.json")
        assert (plan.model.pooling, plan.model.normalise) == (pooling or "cls", True)
        report = tmp_path / "report.json"
        options = ["--backend", "plain", *common, "--preset", RINGS["thor"], "--json", str(report)]
        if pooling:
            monkeypatch.setenv("TACITA_PLAN__POOLING", pooling)
        assert command("classify", TEXTS[0], *options) == 0
        found = json.loads(report.read_text())["results"][0]
        wanted = by_hand(load(folder), TEXTS[0], pooling or "cls", normalise=True)
        assert np.abs(np.array(found["logits"]) - wanted).max() < 0.01
        assert np.abs(np.array(found["reference_logits"]) - wanted).max() < 1e-6
    assert command("plan", *common, "--pooling", "max") == 2
    assert command("estimate", *common, "--scheme", "bumblebee", "--pooling", "mean") == 0


def test_a_model_of_masks_is_opened_as_its_plan_says(tmp_path: Path) -> None:
    """A worker of a service passes on the pooling of the plan, which is "none"."""
    folder = write_folder(make_random_checkpoint(1, labels=(), task="words"), tmp_path / "filler")
    named = load(folder, pooling="none")
    assert (named.config.task, named.sha256) == ("words", load(folder).sha256)
    assert load(folder, pooling="mean").config.task == "text"
