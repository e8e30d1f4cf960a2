"""`tacita schema` prints the JSON schema of a command's `--json`: its fields, and which are always there.

Bytes, counts and numbers of lines are integers; seconds, shares and GB (10^9 bytes) are numbers. A field that
a schema does not name is not written. Of a run of many shapes, as on this machine or with a server, the
schema is one of both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import ConfigDict, JsonValue, RootModel, create_model

from tacita.errors import InputError, nearest
from tacita.plans.error import ErrorBound, Population
from tacita.schemes.ciphertexts import StageEstimate
from tacita.texts.spans import Span, TaggedToken

Numbers: TypeAlias = dict[str, float]
MAYBE: Any = float | None
Counts: TypeAlias = dict[str, int]
LIST: Any = list  # of a shape, which is no type to a checker
ROOT: Any = RootModel
Rows: TypeAlias = list[dict[str, JsonValue]]


def _shape(name: str, fields: Mapping[Any, str], base: Any = None) -> Any:
    """Returns a shape of fields. fields: type -> names; one that ends in "?" may be absent."""
    named = {each: kind for kind, names in fields.items() for each in names.split()}
    declared: Any = {n.rstrip("?"): (kind, None if n.endswith("?") else ...) for n, kind in named.items()}
    config: Any = {"__base__": base} if base else {"__config__": ConfigDict(extra="forbid", defer_build=True)}
    return create_model(name, **config, **declared)


Score = _shape("Score", {str: "label", float: "score", int: "token?"})
Mask = _shape("Mask", {int: "start end", LIST[Score]: "scores"})
Answer = _shape(
    "Answer",
    {
        str | None: "label",
        list[float] | None: "logits",
        list[str]: "warnings labels?",
        bool: "trusted",
        LIST[Score]: "scores?",
        Numbers: "values?",
        int: "outputs? token?",
        float: "share?",
        list[Span]: "spans?",
        list[TaggedToken]: "tokens?",
        Span: "span?",
        LIST[Mask]: "masks?",
        str | list[str]: "text?",
    },
)
_HERE = {
    int: "line request",
    Numbers: "seconds",
    MAYBE: "max_abs_error",
    list[float]: "reference_logits",
}
Here = _shape("ResultHere", _HERE, Answer)
Parameters = _shape(
    "Parameters", {str: "preset secret", int: "log_n security_bits", float: "log_qp failure_log2"}
)
_RUN = {
    str: "backend scheme plan_hash",
    bool: "encrypted",
    int: "tokens inputs requests texts_per_request threads",
    float: "wall_seconds seconds_per_input seconds_per_request agreement peak_rss_gb",
    Counts: "bytes",
    Parameters | None: "parameters",
    int | None: "bootstraps",
    LIST[Here]: "results",
    Rows: "rejected?",
    dict[str, JsonValue]: "cluster?",
    Numbers: "peak_rss_gb_by_step?",
}
Run = _shape("Run", _RUN, Here)
_THERE = {int: "line request bytes_sent? bytes_received? rounds?", float: "seconds", Numbers: "steps"}
There = _shape("ResultThere", _THERE, Answer)
Remote = _shape(
    "RunRemote",
    {
        str: "scheme model plan_hash",
        bool: "encrypted",
        int: "tokens inputs requests texts_per_request bytes_sent bytes_received rounds?",
        float: "seconds peak_rss_gb",
        Numbers: "steps? before? after? together?",
        LIST[There]: "results",
        Rows: "profile?",
        list[int]: "rejected? unanswered?",
    },
)
Step = _shape("Step", {str: "step", Numbers: "seconds", float: "peak_rss_gb"})
Sized = _shape("StepOfBytes", {Counts: "bytes"}, Step)
Ciphertexts = _shape(
    "EstimateOfCiphertexts",
    {
        str: "model scheme packing machine",
        int: "tokens texts_per_request lanes inputs requests bootstraps key_switches rotation_keys threads",
        float: "wall_seconds seconds_per_input touch_seconds spill_seconds memory_limit_gb spill_gb",
        Numbers: "seconds stage_seconds",
        Counts: "stage_bytes bytes",
        list[StageEstimate]: "stages",
        ErrorBound: "error",
        Parameters: "parameters",
        list[str]: "too_large",
    },
)
TwoParties = _shape(
    "EstimateOfTwoParties",
    {
        str: "model scheme plan_hash",
        int: "tokens inputs bytes_per_input before_bytes after_bytes setup_bytes public_bytes "
        "transfers_per_input",
        float: "wall_seconds",
        Numbers: "seconds_per_input before_seconds after_seconds",
        MAYBE: "failure_log2",
    },
)
_PRICED = {
    str: "scheme server client",
    bool: "fits one_round post_quantum",
    list[str]: "reasons",
    MAYBE: "all_seconds seconds_per_request once_seconds",
    int | None: "all_bytes bytes_per_request once_bytes",
}
_CHOICE = {
    str: "verdict reason",
    dict[str, JsonValue]: "needs",
    int: "inputs",
    LIST[_shape("Option", _PRICED)]: "options",
}
_WRITTEN = {str: "text", list[int]: "tokens", dict[str, list[str]]: "near", bool: "trusted"}
_GENERATED = _WRITTEN | {
    dict[str, float | None]: "prefill token",
    int: "bytes_sent? bytes_received? rounds?",
    Numbers: "before?",
}
_OF_FILE = {
    LIST[_shape("GeneratedLine", _WRITTEN | {int: "line"})]: "results",
    list[float]: "turn_seconds",
    Rows: "rejected",
    int: "bytes_sent? bytes_received? rounds?",
    Numbers: "before?",
}
_EVALUATED = {
    int: "threads bootstraps resumed_stages",
    float: "ciphertext_gb spill_gb spill_written_gb spill_read_gb",
    Numbers: "predicted_stage_seconds stage_seconds",
}
_MEASURED = {
    str: "backend model plan_hash scheme",
    bool: "encrypted",
    int: "sentences warnings empty tokens calibrated_on processes resumed matches? mismatches?",
    list[str]: "exact",
    float: "seconds_per_sentence peak_rss_gb accuracy? reference_accuracy? agreement? macro_f1? matthews? "
    "f1? reference_macro_f1? reference_matthews? reference_f1? top3? reference_top3?",
    MAYBE: "max_abs_error mean_abs_error correlation? reference_correlation? correlation_with_reference? "
    "cross_entropy? reference_cross_entropy? cross_entropy_difference? perplexity? reference_perplexity?",
    Parameters | None: "parameters",
    Rows: "rejected",
}
_PLANNED = {str: "plan_hash scheme", int: "bootstraps?", Population: "population?", list[str]: "options?"}
_DEVICE = {str: "device name maker driver", int: "memory buffer", bool: "fp64 gpu"}
_COMPARED = {str: "kernel flavour", int: "log_n residues differ"}
_VERIFIED = {
    str: "device name maker driver release commit kernels processor system preset?",
    int: "memory buffer residues differ",
    bool: "fp64 gpu",
    Numbers: "seconds?",
    LIST[_shape("Compared", _COMPARED)]: "checks",
}
Copy = _shape("Copy", {int: "keys requests left_out files bytes"})
SCHEMAS: Mapping[str, Any] = {
    **dict.fromkeys(("classify", "embed", "search", "tag", "answer", "fill", "rerank"), ROOT[Run | Remote]),
    "demo": Run,
    "generate": ROOT[_shape("Generated", _GENERATED) | _shape("GeneratedOfFile", _OF_FILE)],
    "plan": _shape("Planned", _PLANNED, Step),
    "publish": _shape("Published", {str: "plan_hash public_hash scheme"}, Sized),
    "keygen": Sized,
    "encrypt": _shape("Encrypted", {list[int]: "lines?"}, Sized),
    "evaluate": _shape("Evaluated", _EVALUATED, Sized),
    "decrypt": _shape(
        "Decrypted",
        {str: "step", Numbers: "seconds", float: "peak_rss_gb", LIST[Answer]: "answers"},
        Answer,
    ),
    "estimate": ROOT[Ciphertexts | TwoParties],
    "choose": _shape("Choice", _CHOICE),
    "accuracy": _shape("Accuracy", _MEASURED),
    "prices": ROOT[dict[str, JsonValue]],
    "recheck": _shape("Rechecked", {str | None: "label?", Rows: "checks"}, Step),
    "doctor": _shape("Machine", {bool: "fits", list[str]: "missing", dict[str, dict[str, str]]: "checks"}),
    "device list": _shape("Devices", {LIST[_shape("Device", _DEVICE)]: "devices", str: "reason"}),
    "device verify": _shape("DeviceVerified", _VERIFIED),
    "keys list": _shape("Keys", {str: "folder", Rows: "servers? keys?"}),
    "token list": ROOT[Rows],
    "backup": Copy,
    "restore": Copy,
}


def schema_of(command: str) -> dict[str, Any]:
    """Returns the JSON schema of a command's report. Raises InputError for a command without one."""
    if command not in SCHEMAS:
        raise InputError(f"schema: {command!r:.60} writes no JSON", hint=nearest(command, SCHEMAS))
    return {**SCHEMAS[command].model_json_schema(), "title": f"tacita {command} --json"}


def schema(
    command: Annotated[list[str], typer.Argument(help="The command, such as classify or keys list.")],
) -> None:
    """Print the JSON schema of what a command writes by --json."""
    typer.echo(json.dumps(schema_of(" ".join(command)), indent=1))
