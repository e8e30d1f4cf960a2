"""The two-party mode beside the peer that users have today, SPU's CHEETAH, in one run on the same two cores.

    python3.11 -m venv DIR && DIR/bin/pip install spu==0.9.5 jax==0.4.34 jaxlib==0.4.34 'numpy<2'
    python evaluation/two_party_peer.py --python DIR/bin/python --json peer.json --markdown peer.md

For each shape the peer runs first (its script ../shared/peers/spu_bench.py, two processes over loopback in a
network namespace of their own), then ours by the same command in such a namespace, over bare TCP because the
peer has no TLS. The peer's bytes are its namespace's loopback counter; ours are those that the channels
count, times what the namespace's counter says the session took for each byte counted (TCP and IP, 1 to 3 %).
Taken of the peer is its cheapest trial, which may have found correlated transfers in stock; ours pays for
those that it uses. Needs Linux, root (for the namespace) and two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from two_party_figures import beside

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT.parent / "shared" / "peers" / "spu_bench.py"
NAMESPACE = "ip link set lo up && {command}; status=$?; grep lo: /proc/net/dev >&2; exit $status"


@dataclass(frozen=True)
class Pairing:
    """A case of the peer's script and ours. times: peer runs that make one of ours (its whole model is
    extrapolated)."""

    peer: str
    ours: str
    times: int = 1
    note: str = ""
    slow: bool = False


PAIRINGS = (
    Pairing("mm_sp", "matmul_128_768_768"),
    Pairing("emb", "matmul_1_50257_768"),
    Pairing("gelu_seg4", "gelu_65536"),
    Pairing("softmax_cfg", "softmax_960_180"),
    Pairing("less", "less_65536"),
    Pairing("enc_tiny", "tiny_shape"),
    Pairing("enc_minilm1", "minilm", 6, "peer: one layer, times 6", slow=True),
    Pairing("enc_base1", "bert_base_shape", 12, "peer: one layer, times 12", slow=True),
)


def main() -> None:
    options = _options()
    pairs = [
        pair
        for pair in PAIRINGS
        if (pair.peer in options.case if options.case else options.slow or not pair.slow)
    ]
    report: dict[str, Any] = {"began": time.strftime("%Y-%m-%d %H:%M"), "trials": options.trials, "rows": []}
    for pair in pairs:
        began = time.monotonic()
        theirs = peer(pair, options) if options.only != "ours" else None
        mine, session = ours(pair, options) if options.only != "peer" else (None, {})
        report["rows"].append(
            {
                "peer_case": pair.peer,
                "case": pair.ours,
                "note": pair.note,
                "peer": theirs,
                **session,
                "ours": mine,
            }
        )
        print(f"{pair.peer}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))
    lines = "\n".join(beside(report))
    print(lines)
    if options.markdown:
        options.markdown.write_text(lines + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path("python3.11"), help="of the environment with spu")
    parser.add_argument("--script", type=Path, default=SCRIPT)
    parser.add_argument(
        "--case", action="append", choices=[p.peer for p in PAIRINGS], help="default: all that are not slow"
    )
    parser.add_argument(
        "--slow", action="store_true", help="also a layer of MiniLM and BERT-base (many minutes each)"
    )
    parser.add_argument("--only", choices=["peer", "ours"], help="one side alone")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--model", type=Path, help="folder of MiniLM-L6")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one command")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def peer(pair: Pairing, options: argparse.Namespace) -> dict[str, Any]:
    """The peer's trial with the least CPU seconds, multiplied up; fields named as ours."""
    best, trials = best_trial(options.script, pair.peer, options)
    return {
        "wall_seconds": pair.times * best["wall"],
        "cpu_seconds": [pair.times * best["cpu0"], pair.times * best["cpu1"]],
        "megabytes": pair.times * best["MB"],
        "max_abs_error": best["maxerr"],
        "peak_rss_gb": best["rssGB"],
        "setup_seconds": best["setup"],
        "times": pair.times,
        "trials": trials,
    }


def best_trial(script: Path, case: str, options: argparse.Namespace) -> tuple[dict[str, Any], list[Any]]:
    """The trial of the peer's script with the least CPU seconds, and all of them."""
    cores = ",".join(str(core) for core in (sorted(os.sched_getaffinity(0)) * 2)[:2])
    words = [options.python, script, case, "--trials", options.trials, "--cores", cores]
    output, _ = namespaced(words, options.timeout)
    trials = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not trials:
        sys.exit(f"peer {case}: {output[-2000:]}")
    return min(trials, key=lambda trial: trial["cpu0"] + trial["cpu1"]), trials


def ours(pair: Pairing, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, float]]:
    """(the figures of `python -m bench two-party`, counted and loopback megabytes of the whole session)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words: list[Any] = [
            sys.executable,
            "-m",
            "bench",
            "two-party",
            "--plain",
            "--case",
            pair.ours,
            "--json",
            report,
        ]
        words += ["--model", options.model] if options.model and pair.ours == "minilm" else []
        _, loopback = namespaced(words, options.timeout)
        found: dict[str, Any] = json.loads(report.read_text())["cases"][pair.ours]
    counted = found["setup_megabytes"] + found["as_measured"]["megabytes"]
    found["loopback_megabytes"] = found["megabytes"] * loopback / 1e6 / counted
    return found, {"session_megabytes_counted": counted, "session_megabytes_loopback": loopback / 1e6}


def namespaced(words: Sequence[Any], timeout: float) -> tuple[str, int]:
    """Runs a command in a fresh network namespace: (its output, bytes that went over its loopback)."""
    command = NAMESPACE.format(command=shlex.join(str(word) for word in words))
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", command], capture_output=True, text=True, timeout=timeout
    )
    if done.returncode:
        sys.exit(f"{shlex.join(str(word) for word in words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    counters = [
        line.split(":", 1)[1].split() for line in done.stderr.splitlines() if line.strip().startswith("lo:")
    ]
    return done.stdout, int(counters[-1][8])


if __name__ == "__main__":
    main()
