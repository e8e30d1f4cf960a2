"""A model as two files of a form of its own: what travels to nodes is what was loaded and checked.

model.json             the model's name, its family, its configuration
model.safetensors      all tensors in the fewest bytes that keep them exactly
"""

from __future__ import annotations

import json
from pathlib import Path

from tacita.checkpoint import Checkpoint, from_tensors
from tacita.errors import CheckpointError
from tacita.models.registry import FAMILIES, family_of
from tacita.plans.files import replacing, write_text
from tacita.plans.json_fields import from_json, to_json
from tacita.texts.embedding import decode, parse_raw, to_bytes

MODEL, WEIGHTS = "model.json", "model.safetensors"
WHERE = "the client's weights"


def write_model(model: Checkpoint, folder: Path) -> None:
    """Writes both files. Raises FileError."""
    family, config = family_of(model.config), to_json(model.config)
    with replacing(folder / WEIGHTS) as path:
        path.write_bytes(to_bytes(model.tensors))
    write_text(folder / MODEL, json.dumps({"name": model.name, "family": family, "config": config}))


def parse_model(text: str, weights: bytes) -> Checkpoint:
    """Returns the model of both files' contents. Raises CheckpointError for what is none."""
    try:
        fields = json.loads(text)
        config = from_json(FAMILIES[fields["family"]].config, fields["config"])
        name = str(fields["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{MODEL}: no model ({error!s:.200})", hint="use one release") from error
    tensors = {key: decode(WHERE, key, entry) for key, entry in parse_raw(weights, WHERE).items()}
    return from_tensors(config, tensors, name=name, where=WHERE)
