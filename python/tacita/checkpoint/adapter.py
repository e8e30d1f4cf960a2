"""A folder of an adapter, as PEFT writes it (LoRA, arXiv 2106.09685).

For some matrices W of a base model it has two small ones, A and B, whose product is added, W + scale * B A,
and heads that replace the base's. They are merged as the weights are read, so what comes after knows no
adapter, and models of one base whose sizes are the same take the same keys. A field that is not listed here
must say nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacita.checkpoint.weights import SafetensorsFile, Stored
from tacita.errors import CheckpointError
from tacita.models.fields import Fields, read_json
from tacita.texts.embedding import Array, decode

ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE, OUTSIDE = "base_model_name_or_path", "base_model.model."  # before names of tensors
SELECTIONS = {"target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "modules_to_save"}
READ = {"peft_type", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "fan_in_fan_out", BASE}
IDLE = {"auto_mapping", "inference_mode", "lora_dropout", "megatron_core", "peft_version", "revision"}
IDLE |= {"qalora_group_size", "runtime_config", "task_type"}  # what training or another kind reads
STARTS = (None, True, False, "gaussian")  # of training; others change the base's weights
MOST_RANK, MOST_ALPHA = 4096, 2.0**20


def adapter_of(path: Path) -> Fields | None:
    """Returns the fields of an adapter's folder; None for another one. Raises CheckpointError."""
    if not (path / ADAPTER).is_file():
        return None
    f = Fields(path / ADAPTER, read_json(path / ADAPTER))
    if (path / "config.json").is_file():
        raise CheckpointError(
            f"{f.path}: an adapter beside config.json, the model of which is meant?",
            hint="take adapter_config.json away for the model alone, or config.json for base and adapter",
        )
    if f.data.get("peft_type") != "LORA":
        f.refuse("peft_type", "only LORA is supported")
    f.only("bias", "none")
    if f.data.get("init_lora_weights") not in STARTS:
        f.refuse("init_lora_weights", "the base's weights would be others")
    known = SELECTIONS | READ | IDLE | {"bias", "init_lora_weights"}
    for name in f.data.keys() - known:
        if f.data[name] not in (None, False, {}, []):
            f.refuse(name, "what it does is not known here")
    if not isinstance(f.data.get(BASE), str) or not f.data[BASE]:
        f.refuse(BASE, "it must be the folder or the name of the base model")
    if not isinstance(f.data.get("revision"), str | None):
        f.refuse("revision", "it must be a name")
    return f


@dataclass(frozen=True)
class Adapted:
    """Weights of a base model with an adapter's merged in, as `weights.Stored`. fields: `adapter_of`."""

    base: Stored
    fields: Fields

    @property
    def path(self) -> Path:
        """The adapter's file."""
        return self.fields.path.parent / ADAPTER_WEIGHTS

    @property
    def names(self) -> Collection[str]:
        """Lists the base's tensors and those that the adapter brings."""
        return {*self.base.names, *(name for name, kind in self._parts if kind == "whole")}

    def read(self, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Reads the base's tensors and merges the adapter's, all of which must be asked for."""
        wanted = list(names)
        if unread := sorted({name for name, _ in self._parts} - set(wanted)):
            raise self._error(f"tensor {unread[0]:.200} is none that the base model reads")
        raw = SafetensorsFile(self.path).read(self._parts.values())
        ours = {part: decode(str(self.path), name, raw[name]) for part, name in self._parts.items()}
        if not all(np.isfinite(tensor).all() for tensor in ours.values()):
            raise self._error("numbers that are not finite")
        whole = {name for name, kind in ours if kind == "whole"}
        if several := sorted(name for name in whole if wanted.count(name) > 1):
            raise self._error(f"tensor {several[0]:.200} replaces one of several that the base's stands for")
        tensors = dict(self.base.read(name for name in wanted if name not in whole))
        for name in whole:
            tensors[name] = raw[self._parts[name, "whole"]]
        for name in {name for name, kind in ours if kind == "A"}:
            weight = decode(str(self.base.path), name, tensors[name])
            merged = weight + self._delta(name, weight.shape, ours[name, "A"], ours[name, "B"])
            tensors[name] = {"dtype": "F64", "shape": merged.shape, "data": merged.tobytes()}
        return tensors

    def _delta(self, name: str, shape: tuple[int, ...], a: Array, b: Array) -> Array:
        module = name.removesuffix(".weight")
        rank = self._pattern("rank_pattern", module) or self.fields.integer("r", MOST_RANK, 8)
        alpha = self._pattern("alpha_pattern", module) or self.fields.number("lora_alpha", 8, 0.0, MOST_ALPHA)
        turned = self.fields.flag("fan_in_fan_out", False)
        outputs, inputs = shape[::-1] if turned and len(shape) == 2 else (*shape, 0)[:2]
        if a.shape != (rank, inputs) or b.shape != (outputs, rank):
            raise self._error(f"{module:.200}: {a.shape} and {b.shape} of rank {rank:g} for {shape}")
        root = self.fields.flag("use_rslora", False)
        delta = np.asarray(alpha / (math.sqrt(rank) if root else rank) * (b @ a))
        return delta.T if turned else delta

    def _pattern(self, field: str, module: str) -> float | None:
        """Returns what the first name says of those that the module's ends with; names alone, no patterns."""
        part = self.fields.part(field)
        for name in part.data if part else ():
            if not re.fullmatch(r"\w+(\.\w+)*", name):
                self.fields.refuse(field, "only names of modules are supported")
            if part and f".{module}".endswith(f".{name}"):
                return part.number(name, 0.0, 1.0, MOST_RANK if field == "rank_pattern" else MOST_ALPHA)
        return None

    @cached_property
    def _parts(self) -> Mapping[tuple[str, str], str]:
        """Maps (the base's name of a tensor, "A", "B" or "whole") to the name in the adapter's file."""
        saved, parts = self.fields.data.get("modules_to_save") or [], dict[tuple[str, str], str]()
        for name in SafetensorsFile(self.path).names:
            match = re.fullmatch(r"(.+)\.lora_([AB])\.weight", inside := name.removeprefix(OUTSIDE))
            module = inside.rpartition(".")[0]
            if match:
                parts[f"{match[1]}.weight", match[2]] = name
            elif isinstance(saved, list) and any(f".{module}".endswith(f".{each}") for each in saved):
                parts[inside, "whole"] = name
            else:
                raise self._error(f"tensor {name:.200} is of another kind than LoRA's")
        for name, kind in parts:
            if kind != "whole" and not {(name, "A"), (name, "B")} <= parts.keys():
                raise self._error(f"one matrix for {name:.200}")
        return parts

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {what}", hint="an adapter of another base, or of another kind")
