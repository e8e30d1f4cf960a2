"""What a folder's config.json may say: which family and head it is, what is refused before weights are
read."""

from __future__ import annotations

import inspect
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint
from test_families import DATA, folder_of

from tacita.checkpoint import load
from tacita.checkpoint.config import read_config
from tacita.errors import CheckpointError, InputError, PlanError
from tacita.models.registry import FAMILIES, check, front, outline, shapes, tensor_shapes
from tacita.texts.embed import embedded, tokenize

# of a random BERT with one layer, as it was before there were other families
HASH = "6bf033d9ed02ec348a1512384b61281ef52441313817a215f04c0601567c6a03"


def unread() -> list[str]:
    raise AssertionError("weights were looked at")


def config_of(place: Path, name: str, pooling: str | None = None, **changes: Any) -> Any:
    """The configuration of a case with changed fields; None takes one away."""
    fields = json.loads((DATA / name / "config.json").read_text()) | changes
    kept = {field: value for field, value in fields.items() if value is not None}
    (place / "config.json").write_text(json.dumps(kept))
    return read_config(place, pooling, True, unread)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("bert-class", {"architectures": ["BertForMultipleChoice"]}, "architecture 'BertForMultipleChoice'"),
        ("bert-class", {"architectures": ["A", "B"]}, r"architecture \"\['A', 'B'\]\""),
        ("bert-class", {"architectures": None, "model_type": "t5"}, "model_type 't5'"),
        ("bert-class", {"architectures": None, "model_type": None}, "model_type None"),
        ("bert-class", {"model_type": "roberta"}, "'BertForSequenceClassification' and model_type 'roberta'"),
        (
            "bert-class",
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'rel",
        ),
        ("bert-class", {"pruned_heads": {"0": [1]}}, "pruned_heads is"),
        ("bert-class", {"problem_type": "ranking"}, "problem_type is 'ranking'"),
        ("bert-class", {"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ("roberta-class", {"is_decoder": True}, "is_decoder is True"),
        ("roberta-class", {"pad_token_id": -1}, "pad_token_id is -1"),
        ("roberta-class", {"max_position_embeddings": 2}, "max_position_embeddings is 2"),
        ("distilbert-class", {"dim": 13}, "dim 13 is not a multiple of n_heads 3"),
        ("distilbert-class", {"n_layers": 49}, "n_layers is 49"),
        ("electra-class", {"embedding_size": 0}, "embedding_size is 0"),
        ("albert-class", {"num_hidden_groups": 2}, "num_hidden_groups is 2"),
        ("albert-class", {"inner_group_num": 2}, "inner_group_num is 2"),
        ("mpnet-class", {"relative_attention_num_buckets": 8}, "relative_attention_num_buckets is 8"),
        ("modernbert-class", {"layer_types": ["full_attention"] * 4}, "layer_types is"),
        ("modernbert-class", {"rope_parameters": {"full_attention": 3}}, "full_attention is 3"),
        ("modernbert-class", {"global_rope_theta": 0}, "global_rope_theta is 0"),
        ("modernbert-class", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling is"),
        ("modernbert-class", {"classifier_pooling": "max"}, "classifier_pooling is 'max'"),
        ("vit-class", {"num_channels": 1}, "num_channels is 1"),
        ("vit-class", {"patch_size": 5}, "image_size is 12"),
        ("dinov2-model", {"use_swiglu_ffn": True}, "use_swiglu_ffn is True"),
    ],
)
def test_refused_before_the_weights_are_read(
    tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        config_of(tmp_path, name, **changes)
    assert str(tmp_path) in str(caught.value) and caught.value.hint


def test_a_folder_is_refused_although_it_has_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="model_type 'deberta-v2'") as caught:
        config_of(tmp_path, "bert-class", architectures=None, model_type="deberta-v2")
    assert "decisions/0029" in caught.value.hint
    with pytest.raises(CheckpointError, match="architecture 'DebertaV2Model'") as caught:
        config_of(tmp_path, "bert-class", architectures=["DebertaV2Model"], model_type="deberta-v2")
    assert "decisions/0029" in caught.value.hint
    with pytest.raises(CheckpointError) as caught:
        config_of(tmp_path, "bert-class", architectures=["OPTForCausalLM"])
    assert all(name in caught.value.hint for name in ("bert", "modernbert", "vit", "docs/families.md"))


@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta", "mpnet", "albert"])
def test_a_folder_without_architectures_goes_by_its_type(tmp_path: Path, name: str) -> None:
    case = {"xlm-roberta": "xlm-roberta-tokens"}.get(name, f"{name}-class")
    fields = json.loads((DATA / case / "config.json").read_text())
    found = config_of(tmp_path, case, "mean", architectures=None, model_type=fields["model_type"])
    assert found.task == "text" and found.labels == () and found.pooling == "mean"


def test_tasks_problems_and_labels(tmp_path: Path) -> None:
    found = config_of(tmp_path, "bert-class")
    assert (found.task, found.problem, found.labels) == ("text", "single_label", ("no", "perhaps", "yes"))
    several = config_of(tmp_path, "bert-class", problem_type="multi_label_classification")
    assert several.problem == "multi_label"
    one = {"id2label": {"0": "score"}}
    assert config_of(tmp_path, "bert-class", **one).problem == "regression"
    stated = config_of(tmp_path, "bert-class", problem_type="single_label_classification", **one)
    assert stated.problem == "multi_label"  # its softmax would be 1 for every text
    tokens, span, words = (config_of(tmp_path, f"bert-{name}") for name in ("tokens", "span", "words"))
    assert (tokens.task, tokens.outputs, tokens.every_token, tokens.pooling) == ("tokens", 3, True, "none")
    assert (span.task, span.labels, span.outputs) == ("span", ("start", "end"), 2)
    assert (words.task, words.labels, words.outputs) == ("words", (), 23)


@pytest.mark.parametrize("name", ["gelu_accurate", "gelu_python_tanh", "gelu_pytorch_tanh"])
def test_gelu_by_a_tanh_has_several_names(tmp_path: Path, name: str) -> None:
    assert config_of(tmp_path, "bert-class", hidden_act=name).activation == "gelu_tanh"


def test_an_encoder_trained_on_words_gives_vectors_when_asked(tmp_path: Path) -> None:
    found = config_of(tmp_path, "mpnet-words", "mean")
    assert (found.task, found.pooling, found.outputs) == ("text", "mean", 12)
    with pytest.raises(CheckpointError, match="scores of 30522 words for every token") as caught:
        config_of(tmp_path, "mpnet-words", vocab_size=30522)
    assert "--pooling" in caught.value.hint
    with pytest.raises(CheckpointError, match="pooling 'cls', the model answers for every token"):
        config_of(tmp_path, "bert-span", "cls")
    for name in ("electra-model", "modernbert-model"):  # no pooler
        with pytest.raises(CheckpointError, match="pooling 'pooler'"):
            config_of(tmp_path, name, "pooler")


DECODERS = {
    "bert": "cls.predictions.decoder",
    "roberta": "lm_head.decoder",
    "distilbert": "vocab_projector",
    "electra": "generator_lm_head",
    "albert": "predictions.decoder",
    "modernbert": "decoder",
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_that_is_not_tied_must_be_there(tmp_path: Path, name: str) -> None:
    from safetensors.numpy import load_file, save_file

    folder, decoder = folder_of(f"{name}-words", tmp_path), f"{DECODERS[name]}.weight"
    fields = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match="tie_word_embeddings is False") as caught:
        load(folder)
    assert decoder in caught.value.hint
    tensors = load_file(folder / "model.safetensors")
    (table,) = (
        tensors[key] for key in tensors if key.endswith(("word_embeddings.weight", "tok_embeddings.weight"))
    )
    save_file({**tensors, decoder: 2 * table}, folder / "model.safetensors")
    assert np.array_equal(load(folder).tensors[decoder], 2.0 * table)


def test_long_tables_and_deep_models_do_not_matter(tmp_path: Path) -> None:
    assert config_of(tmp_path, "roberta-class", max_position_embeddings=9001).positions == 8192
    assert config_of(tmp_path, "modernbert-class", max_position_embeddings=1 << 14).positions == 8192
    assert config_of(tmp_path, "bert-class", num_hidden_layers=48).layers == 48


def test_a_longer_table_is_cut_to_what_plans_have(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder, name = folder_of("bert-class", tmp_path), "bert.embeddings.position_embeddings.weight"
    tensors, rng = load_file(folder / "model.safetensors"), np.random.default_rng(0)
    tensors[name] = rng.normal(size=(8200, 12)).astype(np.float16)
    save_file(tensors, folder / "model.safetensors")
    fields = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 8200}
    (folder / "config.json").write_text(json.dumps(fields))
    rows = load(folder).tensors[name.removeprefix("bert.")]
    assert np.array_equal(rows, tensors[name][:8192].astype(np.float64))


def test_newer_files_of_modernbert_say_the_same(tmp_path: Path) -> None:
    older = config_of(tmp_path, "modernbert-class", global_rope_theta=5000.0, local_rope_theta=70.0)
    kinds = {"full_attention": 5000.0, "sliding_attention": 70.0}
    rope = {kind: {"rope_theta": base, "rope_type": "default"} for kind, base in kinds.items()}
    types = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    newer = config_of(tmp_path, "modernbert-class", rope_parameters=rope, layer_types=types)
    assert newer == older and newer.bases == (5000.0, 70.0)
    bare = {kind: {"rope_type": "default"} for kind in kinds}  # the bases stand beside them
    mixed = {"global_rope_theta": 5000.0, "local_rope_theta": 70.0, "rope_parameters": bare}
    assert config_of(tmp_path, "modernbert-class", **mixed) == older
    rope["full_attention"]["rope_type"] = "yarn"
    with pytest.raises(CheckpointError, match="rope_type is 'yarn'"):
        config_of(tmp_path, "modernbert-class", rope_parameters=rope)


def test_fields_at_their_defaults_leave_the_hash_of_old_checkpoints() -> None:
    assert make_random_checkpoint(layers=1).sha256 == HASH


def test_every_family_has_an_outline_for_its_plans() -> None:
    sizes = {"layers": 2, "hidden": 12, "heads": 3, "intermediate": 20, "labels": ("a", "b")}
    for name, family in FAMILIES.items():
        config = outline(name, activation="gelu", pooling="cls", **sizes)
        assert type(config) is family.config and tensor_shapes(config)


def test_a_hidden_embedding_walks_positions_norm_and_projection(tmp_path: Path) -> None:
    """What a server does with rows of its table of words equals what a client does with all tables."""
    from tacita.blocks.floats import FloatTensors
    from tacita.blocks.tensors import TensorBlocks
    from tacita.blocks.weights import Weights
    from tacita.texts.embedding import WORDS

    ids = [2, 5, 7, 9]
    for name in ("roberta-class", "electra-class", "mpnet-class", "modernbert-class", "albert-class"):
        model = load(folder_of(name, tmp_path))
        blocks = TensorBlocks(FloatTensors(Weights(model.tensors), np.ones(4)))
        found = blocks.answer(front(blocks, model.config, model.tensors[WORDS][ids]))
        assert np.allclose(found, embedded(model, ids, [0] * 4), atol=1e-12), name
        nodes = shapes(model.config, 4, hidden_embedding=True).nodes
        assert "embedding.norm" in nodes
    images = load(folder_of("vit-class", tmp_path))
    with pytest.raises(PlanError, match="hidden embedding of images"):
        front(TensorBlocks(FloatTensors(Weights({}), np.ones(4))), images.config, np.zeros((4, 12)))
    with pytest.raises(InputError, match="takes images, not texts"):
        tokenize(images, "a text")


def test_tasks_that_do_not_fit_are_refused() -> None:
    config = make_random_checkpoint(layers=1).config
    for changes in ({"task": "poem"}, {"problem": "rhyme"}, {"task": "tokens"}, {"pooling": "none"}):
        with pytest.raises(CheckpointError, match="task"):
            check(replace(config, **changes))


def test_old_names_of_norms_are_found(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    for name in ("bert-class", "electra-class"):
        folder = folder_of(name, tmp_path)
        expected, tensors = load(folder), load_file(folder / "model.safetensors")
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        renamed = {
            next((key.replace(new, was) for new, was in old.items() if key.endswith(new)), key): values
            for key, values in tensors.items()
        }
        save_file(renamed, folder / "model.safetensors")
        assert load(folder).sha256 == expected.sha256
        shutil.rmtree(folder)


def test_a_family_is_a_short_file() -> None:
    files = Counter(inspect.getfile(family.config) for family in FAMILIES.values())
    lines = [len(Path(file).read_text().splitlines()) / count for file, count in files.items()]
    assert np.median(lines) <= 120 and max(lines) <= 180, lines
