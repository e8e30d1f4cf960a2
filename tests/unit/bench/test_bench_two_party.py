"""`python -m bench two-party`: two processes, their figures, their failures; and the cases' own
arithmetic."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import two_party_world
from test_bench_batch import bench

from bench.runs.two_party.cases.case import FRACTION, Options, computed, decode, encode, errors, mine
from bench.runs.two_party.cases.models import RandomShape
from bench.runs.two_party.command import CASES
from bench.runs.two_party.cost import Cost, Run, difference, refills
from bench.runs.two_party.measure import measure_case, sums_by_name
from bench.runs.two_party.party import cores
from bench.runs.two_party.session import choices
from bench.tables import pages
from bench.tables import two_party as figures
from tacita.blocks.weights import Weights
from tacita.checkpoint.reference import reference
from tacita.errors import InputError, TacitaError
from tacita.two_party.model import simulation

FIELDS = {
    "wall_seconds", "cpu_seconds", "megabytes", "rounds", "max_abs_error", "peak_rss_gb", "setup_seconds",
    "setup_megabytes", "operations", "lan_seconds", "wan_seconds", "as_measured", "without_cots", "cots",
    "link",
}  # fmt: skip
REQUIRED = {
    "matmul_128_768_768", "matmul_1_50257_768", "gelu_65536", "softmax_960_180", "less_65536", "ferret",
    "gelu_1048576", "products_32768", "products_1048576",
    "default_model", "tiny_shape", "minilm", "bert_base_shape", "bert_large_shape", "vit_base_shape",
    "accuracy",
}  # fmt: skip
FAKE = two_party_world.CASES
PRICE = two_party_world.REFILLS["prepare/cot"].times(1 / 2000)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command on the fake cases, without the engine's yardstick."""
    monkeypatch.setattr("bench.runs.two_party.command.CASES", FAKE)
    machine = {"machine": "a test", "threads": 1, "transport": "none", "yardstick_ms": 1.0}
    monkeypatch.setattr("bench.runs.two_party.command.summary", lambda how: dict(machine))


def test_a_case_reports_what_both_processes_did() -> None:
    seen: list[tuple[str, str]] = []
    found = measure_case(FAKE["swap"], watch=lambda role, stage, done: seen.append((role, stage)))
    assert set(found) >= FIELDS
    assert found["max_abs_error"] <= 2.0**-19
    size = 8 * two_party_world.LENGTH
    assert found["as_measured"]["megabytes"] == pytest.approx(2 * size / 1e6)
    assert found["setup_megabytes"] == pytest.approx(2 * 1008 / 1e6)
    assert found["megabytes"] == pytest.approx((2 * size + 2 * 500 * PRICE.sent) / 1e6)
    assert found["cots"]["used"] == 500 and found["cots"]["bytes_per_cot"] == pytest.approx(2 * PRICE.sent)
    assert found["cpu_seconds"][0] - found["without_cots"]["cpu_seconds"][0] == pytest.approx(500 * PRICE.cpu)
    assert found["rounds"] == 2  # its own, and a quarter of a refill's, rounded up
    assert {("client", "set-up"), ("server", "run"), ("client", "warm-up")} <= set(seen)
    assert all(0.01 < gigabytes < 1.0 for gigabytes in found["peak_rss_gb"])
    assert found["pid"] != os.getpid()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_each_party_has_a_core_of_its_own() -> None:
    assert measure_case(FAKE["swap"])["cores"] == cores(1)[:1]
    assert cores(1)[0] != cores(1)[1]
    assert cores(2) == [None, None]


def test_slower_links_are_computed_from_bytes_and_rounds() -> None:
    figures = {"wall_seconds": 2.0, "megabytes": 50.0, "rounds": 10}
    found = computed(figures, "loopback")
    assert found == pytest.approx({"lan_seconds": 2.405, "wan_seconds": 3.04, "far_seconds": 6.8})
    assert computed(figures, "wan") == {}
    found = measure_case(FAKE["swap"], ["loopback", "wan"])
    assert found["wan_seconds"] >= found["wall_seconds"] + found["rounds"] * 4e-3
    assert found["wan_measured_seconds"] > 0.0 and "lan_measured_seconds" not in found


def test_windows_are_those_of_a_link_that_is_named_or_described() -> None:
    assert choices("30,1") == (30e6, 1e-3)
    assert choices("loopback") == choices("wan") == (4e8, 4e-3)
    with pytest.raises(InputError, match="no link 'slow'"):
        measure_case(CASES["less_65536"], ("loopback", "slow"))


def test_the_party_that_failed_first_is_quoted() -> None:
    with pytest.raises(TacitaError, match="server: the weights are not there") as caught:
        measure_case(FAKE["failing"])
    assert caught.value.hint == "look for them"


def test_a_party_that_dies_is_told_from_its_log() -> None:
    with pytest.raises(TacitaError, match="client: ended with status 9: Killed by a test"):
        measure_case(FAKE["crashing"])


def test_parties_end_with_the_command(tmp_path: Path) -> None:
    code = "from bench.runs.two_party.measure import measure_case; from two_party_world import CASES\n"
    code += "measure_case(CASES['endless'])"
    environment = {**os.environ, "TACITA_TEST_FOLDER": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    files = [tmp_path / f"{role}.pid" for role in ("client", "server")]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not any(alive(int(file.read_text())) for file in files))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: object, seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)


def test_cots_are_booked_at_the_price_of_those_made_in_the_run_or_else_in_the_session() -> None:
    whole, refilled = Cost(10, 8, 1000, 0, 20, 1), Cost(4, 4, 600, 0, 2, 1)
    run = Run(
        whole, refilled, session=Cost(8, 8, 1200, 0, 4, 2), refill=200, made=400, used=100, operations={}
    )
    assert run.amortised == Cost(6 + 2, 4 + 2, 400 + 300, 0, 18 + 1, 0.5)
    assert replace(run, refill=0, refilled=Cost()).amortised == whole + run.session.times(100 / 400)
    assert replace(run, made=0, refill=0, refilled=Cost()).amortised == whole


def test_refills_inside_refills_count_once() -> None:
    costs = {
        "gelu/less/cot": Cost(wall=1),
        "cot": Cost(wall=2),
        "cot/x/cot": Cost(wall=100),
        "gelu": Cost(wall=50),
    }
    assert refills(costs).wall == 3
    before = {"gelu": Cost(wall=1, calls=2), "less": Cost(calls=1)}
    after = {"gelu": Cost(wall=3, calls=3), "less": Cost(calls=1), "new": Cost(calls=1)}
    assert difference(after, before) == {"gelu": Cost(wall=2, calls=1), "new": Cost(calls=1)}


def test_operations_are_added_up_by_name_but_not_twice() -> None:
    paths = {"gelu": 9, "gelu/less": 4, "softmax/exp/less": 2, "gelu/less/square/less": 1}
    rows = [{"operation": path, "calls": 1, "sent": sent, "received": 0} for path, sent in paths.items()]
    sums = {row["operation"]: (row["calls"], row["sent"]) for row in sums_by_name(rows)}
    assert sums == {"gelu": (1, 9), "less": (2, 6)}
    assert [*sums] == ["gelu", "less"], "most bytes first"


def test_shares_add_up_to_fixed_point() -> None:
    values = np.array([0.0, -1.5, 2.0**44, -(2.0**44), 1 / 3])
    left, right = (mine(values, np.random.default_rng(1), client=client) for client in (True, False))
    assert not np.array_equal(left, encode(values))
    np.testing.assert_allclose(decode(left + right), values, atol=2.0**-19)
    assert errors(values + np.eye(5)[1] / 2, values) == {
        "max_abs_error": 0.5,
        "mean_abs_error": pytest.approx(0.1),
    }


def test_every_case_that_is_asked_for_exists() -> None:
    assert set(CASES) >= REQUIRED


@pytest.mark.usefixtures("fake")
def test_the_command_writes_a_report_and_a_table(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    status, out, err = bench("two-party", "--case", "swap", "--json", str(report), "--profile")
    assert status == 0, err
    found = json.loads(report.read_text())
    assert set(found["cases"]["swap"]) >= FIELDS
    assert found["wall_seconds"] == found["cases"]["swap"]["wall_seconds"]  # a single case is at the top too
    assert "swap, by operation" in out and "a test" in out


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("case", "message"),
    [("nothing", "one of swap"), ("absent", "no such model"), ("failing", "the weights are not there")],
)
def test_errors_are_one_line(case: str, message: str) -> None:
    status, _, err = bench("two-party", "--case", case)
    assert status == 2
    assert message in err and "Traceback" not in err


@pytest.mark.usefixtures("fake")
def test_without_a_case_those_that_cannot_run_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: FAKE[name] for name in ("absent", "swap")}
    monkeypatch.setattr("bench.runs.two_party.command.CASES", few)
    report = tmp_path / "report.json"
    status, _, err = bench("two-party", "--json", str(report))
    assert status == 0 and "left out: bench: absent" in err
    assert list(json.loads(report.read_text())["cases"]) == ["swap"]


SMALL = Options(small=True)


def exact(name: str) -> np.ndarray:
    """The float result of a small case, computed here."""
    inputs = CASES[name].inputs(SMALL)  # type: ignore[attr-defined]
    match name:
        case "products_32768":
            return inputs[0] * inputs[1]
        case "gelu_65536" | "gelu_65536_seg4":
            return np.array([0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))) for x in inputs])
        case "softmax_960_180":
            return np.exp(inputs) / np.exp(inputs).sum(axis=1, keepdims=True)
        case _:
            return inputs[0] @ inputs[1]


@pytest.mark.parametrize(
    "name", ["gelu_65536", "gelu_65536_seg4", "softmax_960_180", "matmul_128_768_768", "products_32768"]
)
def test_cases_score_the_exact_result_zero_and_a_wrong_one_not(name: str) -> None:
    wanted, fraction = exact(name), FRACTION * (2 if name.startswith("products") else 1)
    client = np.random.default_rng(5).integers(0, 2**64, wanted.shape, dtype=np.uint64)
    judged = CASES[name].judge(client, encode(wanted, fraction) - client, SMALL)
    assert judged["max_abs_error"] <= 2.0**-19
    wrong = wanted.copy()
    wrong.flat[-1] += 0.25
    judged = CASES[name].judge(client, encode(wrong, fraction) - client, SMALL)
    assert judged["max_abs_error"] == pytest.approx(0.25, abs=1e-5)


def test_the_comparison_case_scores_bits() -> None:
    case = CASES["less_65536"]
    bits = (case.inputs(SMALL) < 0.1).astype(np.uint8)  # type: ignore[attr-defined]
    client = np.random.default_rng(5).integers(0, 2, bits.shape, dtype=np.uint8)
    assert case.judge(client, client ^ bits, SMALL)["max_abs_error"] == 0.0
    bits[3] ^= 1
    assert case.judge(client, client ^ bits, SMALL)["max_abs_error"] == 1.0


def test_the_transfers_case_scores_those_that_were_wrong() -> None:
    """What each party holds: transfers made, and how many of those shown were wrong."""
    case = CASES["ferret"]
    right = np.array([5_000, 0])
    assert case.judge(right, right, SMALL)["max_abs_error"] == 0.0
    assert case.judge(np.array([5_000, 3]), np.array([5_000, 3]), SMALL)["max_abs_error"] == 3.0
    assert case.judge(right, np.array([4_999, 0]), SMALL)["max_abs_error"] == 1.0


def measured(**more: object) -> dict[str, object]:
    found = {
        "wall_seconds": 1.5,
        "cpu_seconds": [0.25, 0.75],
        "megabytes": 3.0,
        "rounds": 7,
        "max_abs_error": 1e-3,
    }
    return found | {"peak_rss_gb": [0.1, 0.2], "lan_seconds": 1.6, "wan_seconds": 2.0} | more


def test_the_tables_hold_what_was_measured_and_nothing_else() -> None:
    machine = {"machine": "a test", "cores": 2, "threads": 1, "transport": "TLS 1.3", "yardstick_ms": 0.9}
    ferret = measured(session_cots_per_second=12.3e6, bytes_per_cot=0.17)
    cases = {"gelu_65536": measured(wan_measured_seconds=2.5), "ferret": ferret}
    lines = list(figures.ours(machine | {"cases": cases}))
    rows = [line for line in lines if line.startswith("| GELU") or line.startswith("| softmax")]
    assert rows == [
        "| GELU, 2^16 values | 1.50 | 0.25, 0.75 | 3.00 | 7 | 1.0e-03 | 0.10, 0.20 |  | 1.6, 2.0 / 2.5 | "
        "1.5 CPU-s a party, 26 MB, 2e-2 |"
    ]
    assert "12.3 million a second a core at 0.17 bytes" in lines[-1]


def test_the_figures_go_between_their_markers() -> None:
    page, (begin, end) = (
        (pages.DOCS / "benchmarks.md").read_text(encoding="utf-8"),
        pages.markers("two-party"),
    )
    assert page.count(begin) == page.count(end) == 1
    assert pages.replaced(f"a\n{begin}old\n{end}b\n", "two-party", "new\n") == f"a\n{begin}new\n{end}b\n"


@pytest.mark.parametrize("name", ["bert_base_shape", "tiny_shape"])
def test_the_measured_input_of_random_weights_keeps_to_its_bounds(name: str) -> None:
    """It was drawn from the source of the weights: attention met its own numbers and left its ring one run in
    many."""
    case = CASES[name]
    assert isinstance(case, RandomShape)
    model = case.checkpoint(Options(small=True))
    plan, (hidden, mask) = case.plan(model), case.sample(model)
    run = simulation(plan, Weights(model.tensors), mask)
    answer = run.floats(hidden)
    assert not run.overflows
    found = errors(answer, reference(model, hidden, mask).trace["answer"])
    assert found["max_abs_error"] < 2e-3


@pytest.mark.native
@pytest.mark.parametrize(
    ("name", "error"),
    [
        # twice what was measured
        ("matmul_128_768_768", 2e-5),
        ("matmul_1_50257_768", 2e-5),
        ("gelu_65536", 4.2e-3),
        ("products_32768", 4e-6),
        ("gelu_65536_abs8", 2e-3),
        ("gelu_65536_seg4", 3.4e-2),
        ("gelu_65536_p4", 2.2e-2),
        ("elu_65536", 2.4e-3),
        ("embedding_128_50257_768", 4e-5),
        ("softmax_960_180", 5e-4),
        ("less_65536", 0.0),
        ("ferret", 0.0),
        ("bert_base_shape", 1.2e-3),
        ("vit_base_shape", 3e-3),
    ],
)
def test_small_shapes_run_over_tls_by_two_processes(name: str, error: float) -> None:
    native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    if not hasattr(native, "TwoParty"):
        pytest.skip("the native engine is older than the two-party mode: make setup")
    found = measure_case(CASES[name], options=Options(small=True))
    assert found["max_abs_error"] <= error
    assert found["wall_seconds"] > 0.0 and found["megabytes"] > 0.0
    assert found["rounds"] >= (0 if name == "ferret" else 1)  # Ferret's messages go one way
    assert found["setup_megabytes"] > 0.1
    assert sum(row["calls"] for row in found["operations"]) > 0
