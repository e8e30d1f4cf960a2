"""The two-party mode beside the peer that users have today, SPU's CHEETAH, in one run on the same two cores.

    python3.11 -m venv DIR && DIR/bin/pip install spu==0.9.5 jax==0.4.34 jaxlib==0.4.34 'numpy<2'
    python -m bench two-party-peer --python DIR/bin/python --json peer.json
    python -m bench two-party-step --python DIR/bin/python

For each shape the peer runs first (its script ../shared/peers/spu_bench.py, two processes over loopback in a
network namespace of their own), then ours by the same command in such a namespace, over bare TCP because the
peer has no TLS. The peer's bytes are its namespace's loopback counter; ours are those that the channels
count, times what the namespace's counter says the session took for each byte counted (TCP and IP, 1 to 3 %).
Taken of the peer is its cheapest trial, which may have found correlated transfers in stock; ours pays for
those that it uses. Needs Linux, root (for the namespace) and two cores.

`two-party-step` is a token of a tiny GPT-2: two layers of width 128, two heads, 512 wide, 64 tokens kept as
shares, 2,048 words; the largest logit is found on shares. The peer runs a case that is put into its script:
one row through both layers, keys and values of 64 tokens as secret inputs, GELU in four segments, arg-max by
its own operation. Ours is `python -m bench generate --shape gpt2-tiny`: a token behind a prompt of 64, with
its part of what is prepared for 32, by `--new-tokens 33`."""

from __future__ import annotations

import json as jsons
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from bench.options import DATA, PeerPython, emit
from bench.tables.two_party import beside
from tacita.cli.console import err, write_report
from tacita.cli.options import Json, option
from tacita.errors import TacitaError

SCRIPT = DATA.parent / "peers" / "spu_bench.py"
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


@dataclass(frozen=True)
class Peer:
    """How the peer is run. timeout: seconds of one command."""

    python: Path
    script: Path
    trials: int
    timeout: float

    def best_trial(self, case: str) -> tuple[dict[str, Any], list[Any]]:
        """The trial of its script with the least CPU seconds, and all of them."""
        cores = ",".join(str(core) for core in (sorted(os.sched_getaffinity(0)) * 2)[:2])
        words = [self.python, self.script, case, "--trials", self.trials, "--cores", cores]
        output, _ = namespaced(words, self.timeout)
        trials = [jsons.loads(line) for line in output.splitlines() if line.startswith("{")]
        if not trials:
            raise TacitaError(f"peer {case}: {output[-2000:]}", hint="its output has no trial")
        return min(trials, key=lambda trial: trial["cpu0"] + trial["cpu1"]), trials


Script = Annotated[Path, option("--script", help="The peer's.")]
Trials = Annotated[int, option("--trials", help="Of the peer.", min=1)]
Timeout = Annotated[float, option("--timeout", help="Seconds for one command.")]


def two_party_peer(
    python: PeerPython = Path("python3.11"),
    script: Script = SCRIPT,
    case: Annotated[list[str] | None, option("--case", help="Of the peer (default: all not slow).")] = None,
    slow: Annotated[
        bool, option("--slow", help="Also a layer of MiniLM and BERT-base: many minutes.")
    ] = False,
    only: Annotated[str, option("--only", help="One side alone: peer or ours.")] = "",
    trials: Trials = 2,
    model: Annotated[Path | None, option("--model", help="Folder of MiniLM-L6.")] = None,
    timeout: Timeout = 3600.0,
    json: Json = None,
) -> None:
    """Measure the two-party mode beside spu 0.9.5 on the same cores: CPU seconds, megabytes, errors."""
    runner = Peer(python, script, trials, timeout)
    report: dict[str, Any] = {"began": time.strftime("%Y-%m-%d %H:%M"), "trials": trials, "rows": []}
    for pair in (p for p in PAIRINGS if (p.peer in case if case else slow or not p.slow)):
        began = time.monotonic()
        row: dict[str, Any] = {"peer_case": pair.peer, "case": pair.ours, "note": pair.note}
        row["peer"] = peer(pair, runner) if only != "ours" else None
        mine, session = ours(pair, model, timeout) if only != "peer" else (None, {})
        report["rows"].append({**row, **session, "ours": mine})
        err.print(f"{pair.peer}: {time.monotonic() - began:.0f} s")
        write_report(json, report)
    print(*beside(report), sep="\n")


def two_party_step(
    python: PeerPython,
    script: Script = SCRIPT,
    trials: Trials = 3,
    timeout: Timeout = 1200.0,
    json: Json = None,
) -> None:
    """Measure a token of a tiny GPT-2 by two parties beside the same step by spu 0.9.5."""
    theirs, mine = peer_step(Peer(python, script, trials, timeout)), our_step(timeout)
    cpu = [sum(one["cpu_seconds"]) for one in (theirs, mine)]
    less = {"cpu": cpu[0] / cpu[1], "megabytes": theirs["megabytes"] / mine["megabytes"]}
    figures = {f"{name}_times_less": times for name, times in less.items()}
    emit({"peer": theirs, "ours": mine, **figures}, json)


def peer(pair: Pairing, runner: Peer) -> dict[str, Any]:
    """The peer's trial with the least CPU seconds, multiplied up; fields named as ours."""
    best, trials = runner.best_trial(pair.peer)
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


def ours(pair: Pairing, model: Path | None, timeout: float) -> tuple[dict[str, Any], dict[str, float]]:
    """(the figures of `python -m bench two-party`, counted and loopback megabytes of the whole session)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words: list[Any] = ["two-party", "--plain", "--case", pair.ours, "--json", report]
        words += ["--model", model] if model and pair.ours == "minilm" else []
        _, loopback = namespaced([sys.executable, "-m", "bench", *words], timeout)
        found: dict[str, Any] = jsons.loads(report.read_text())["cases"][pair.ours]
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
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        raise TacitaError(f"{shlex.join(map(str, words))}\n{said}", hint="it needs root, for a namespace")
    counters = [
        line.split(":", 1)[1].split() for line in done.stderr.splitlines() if line.strip().startswith("lo:")
    ]
    return done.stdout, int(counters[-1][8])


KEPT, NEW = 64, 33
MARK = '    if c == "warm":\n'
CASE = """    if c == "step_tiny":
        T, D, h, F, V = {kept}, 128, 2, 512, 2048
        r = lambda *s: (rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32)
        ws, kept = [], []
        for _ in range(2):
            ws += [r(D, D), r(D, D), r(D, D), r(D, D), r(D, F), r(F, D)]
            kept += [rng.standard_normal((h, T, D // h)).astype(np.float32) for _ in range(2)]
        one, zero = np.ones(D, np.float32), np.zeros(D, np.float32)

        def heads(y):
            return y.reshape(1, h, D // h).transpose(1, 0, 2)

        def step(x, k0, v0, k1, v1, table, g, c, *w):
            for i, (ks, vs) in enumerate(((k0, v0), (k1, v1))):
                wq, wk, wv, wo, w1, w2 = w[6 * i : 6 * i + 6]
                y = ln(x, g, c)
                keys = jnp.concatenate([ks, heads(y @ wk)], axis=1)
                values = jnp.concatenate([vs, heads(y @ wv)], axis=1)
                scores = jnp.matmul(heads(y @ wq), keys.transpose(0, 2, 1)) * (1 / np.sqrt(D // h))
                mixed = jnp.matmul(softmax_cfg(scores), values).transpose(1, 0, 2).reshape(1, D)
                x = x + mixed @ wo
                x = x + seg4gelu(ln(x, g, c) @ w1) @ w2
            return jnp.argmax(ln(x, g, c) @ table, axis=-1)

        x = rng.standard_normal((1, D)).astype(np.float32)
        shared = [(SEC, -1)] * 5
        return step, [x, *kept, r(D, V), one, zero, *ws], shared + [(PRV, 1)] * (3 + len(ws))
"""


def peer_step(runner: Peer) -> dict[str, Any]:
    """Returns its trial with the least CPU seconds."""
    source = runner.script.read_text(encoding="utf-8")
    if source.count(MARK) != 1:
        raise TacitaError(f"{runner.script}: not the script that this case was written for")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "step.py"
        script.write_text(source.replace(MARK, CASE.format(kept=KEPT) + MARK))
        best, _ = replace(runner, script=script).best_trial("step_tiny")
    return {
        "wall_seconds": best["wall"],
        "cpu_seconds": [best["cpu0"], best["cpu1"]],
        "megabytes": best["MB"],
        "same_token": best["maxerr"] == 0.0,
    }


def our_step(timeout: float) -> dict[str, Any]:
    """The mean of the tokens behind the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ["generate", "--plain", "--shape", "gpt2-tiny", "--prompt-tokens", KEPT, "--new-tokens", NEW]
        namespaced([sys.executable, "-m", "bench", *words, "--json", report], timeout)
        found = jsons.loads(report.read_text())
    return {**found["token"], "agreement": found["agreement"]}
