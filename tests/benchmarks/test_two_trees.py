"""`benchmarks/two_trees.py`: its statistics find what is slower, and nothing where nothing is."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def modules(monkeypatch):
    """The benchmark's modules, which are no package."""
    monkeypatch.setattr(
        sys, "path", [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "trees"), *sys.path]
    )
    import ratios
    import two_trees

    return ratios, two_trees


def times(rng, rounds, factor=1.0, noise=0.05):
    """Seconds of a work, some rounds of which others disturb."""
    disturbed = (3.0 if rng.random() < 0.1 else 1.0 for _ in range(rounds))
    return [[factor * d * rng.lognormvariate(0, noise) for d in disturbed]]


def row(ratios, rng, factor, rounds=30):
    """The row of a work that takes ``factor`` times as long in the new tree."""
    old, again, new = times(rng, rounds), times(rng, rounds), times(rng, rounds, factor)
    return ratios.Row("w", 1.0, ratios.ratio(new, old), ratios.ratio(again, old), True)


def test_the_interval_holds_the_true_ratio(modules):
    ratios, _ = modules
    rng = random.Random(1)
    held = 0
    for _ in range(100):
        one = ratios.ratio(times(rng, 30, 1.2), times(rng, 30))
        assert one.low <= one.median <= one.high
        held += one.low <= 1.2 <= one.high
    assert held >= 88  # of 95 that are expected


def test_a_tenth_slower_is_found_and_noise_is_not(modules):
    ratios, _ = modules
    rng = random.Random(2)
    verdicts = {f: [row(ratios, rng, f).verdict for _ in range(60)] for f in (0.85, 1.0, 1.15)}
    assert verdicts[1.15].count("slower") >= 54 and "faster" not in verdicts[1.15]
    assert verdicts[0.85].count("faster") >= 54 and "slower" not in verdicts[0.85]
    assert verdicts[1.0].count("slower") <= 2 and verdicts[1.0].count("faster") <= 2


def test_what_strikes_a_round_strikes_both_of_its_times(modules):
    ratios, _ = modules
    rng = random.Random(3)
    load = [rng.uniform(1, 10) for _ in range(30)]
    one = ratios.ratio([[1.1 * x for x in load]], [load])
    assert one.low == pytest.approx(1.1) and one.high == pytest.approx(1.1)


def test_processes_that_differ_widen_the_interval(modules):
    ratios, _ = modules
    old, rng = [[1.0] * 3] * 10, random.Random(4)
    new = [[0.9 + 0.02 * k + rng.uniform(0, 1e-3) for _ in range(3)] for k in range(10)]
    apart = ratios.ratio(new, old)
    together = ratios.ratio([[x for group in new for x in group]], [[1.0] * 30])
    assert apart.median == together.median == pytest.approx(0.99, abs=0.002)
    assert apart.high - apart.low > 1.3 * (together.high - together.low)


def test_the_verdict_is_beside_the_noise_of_the_same_tree(modules):
    ratios, _ = modules
    slow, noisy = ratios.Ratio(1.1, 1.05, 1.2), ratios.Ratio(1.02, 0.9, 1.1)
    assert ratios.Row("w", 1e-6, slow, ratios.Ratio(1.0, 0.98, 1.04), True).verdict == "slower"
    assert ratios.Row("w", 1e-6, slow, noisy, True).verdict == ""
    fast = ratios.Row("w", 1e-6, ratios.Ratio(0.8, 0.7, 0.89), noisy, False, (1.0, 0.98))
    assert fast.verdict == "faster" and "OTHER, best 1.000, best 0.980" in fast.line()
    assert fast.to_json()["verdict"] == "faster" and fast.to_json()["ratio"]["low"] == 0.7


class Fake:
    """A worker that needs so many seconds for a work, and notes whose turn it was."""

    turns: list[tuple[str, str, int]] = []

    def __init__(self, tree):
        self.tree = tree

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def turn(self, suite, work, number=0):
        if work is None:
            return ["quick", "slow", "quiet"]
        self.turns.append((self.tree, work, number))
        slow = 1.5 if (self.tree, work) == ("new", "slow") else 1.0
        noise = random.Random(len(self.turns)).uniform(0.99, 1.01)
        text = f"{work} {self.tree == 'new' and work == 'quick'}"
        return {"seconds": slow * noise, "result": text, "quality": None}


def test_all_trees_take_turns_and_what_is_slower_is_measured_again(modules, monkeypatch):
    _, two_trees = modules
    monkeypatch.setattr(two_trees, "Worker", Fake)
    Fake.turns = []
    trees = {name: name for name in two_trees.TREES}
    lines, data, slow = two_trees.compared("cpu_kernels", trees, 12, ["slow", "quick"])
    assert slow and data["slower"] == ["slow"] and "slower: slow" in lines[-1]
    assert {row["work"]: row["same"] for row in data["rows"]} == {"quick": False, "slow": True}
    assert [row["work"] for row in data["again"]] == ["slow"]
    assert data["geomean"]["ratio"] == pytest.approx(1.5**0.5, rel=0.03)
    first, again = Fake.turns[: 12 * 6], Fake.turns[12 * 6 :]
    for number in range(12):
        turns = [t for t in first if t[2] == number]
        assert len(set(turns)) == 6 and turns == first[6 * number : 6 * number + 6]
        assert len({work for _, work, _ in turns[:3]}) == 1  # a work's three turns are neighbours
    assert len({tuple(t[0] for t in first[k : k + 3]) for k in range(0, 72, 3)}) == 6
    assert {work for _, work, _ in again} == {"slow"} and len(again) == 36
    assert two_trees.compared("cpu_kernels", trees, 12, ["quiet"])[2] is False


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_trees_are_compared_in_processes_of_their_own(modules, monkeypatch, tmp_path, capsys):
    _, two_trees = modules
    monkeypatch.setattr(two_trees, "PROCESSES", {"call_overhead": 2})
    output = tmp_path / "figures.json"
    words = ["two_trees.py", "HEAD", "--rounds", "5", "--only", "call_overhead"]
    monkeypatch.setattr(sys, "argv", [*words, "--works", "n = 16", "--output", str(output)])
    assert two_trees.main() in (0, 1)  # time is not asserted
    data = json.loads(output.read_text())
    (one,) = data["call_overhead"]["rows"]
    assert one["work"] == "n = 16" and 0 < one["seconds"] < 1 and one["same"] is True
    assert "round 5 of 5" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["two_trees.py", "nosuch"])
    with pytest.raises(SystemExit, match="nosuch"):
        two_trees.main()


def test_a_worker_refuses_the_whet_of_another_tree(modules, tmp_path, capfd):
    _, two_trees = modules
    (tmp_path / "whet").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "whet" / "__init__.py").write_text(f"__file__ = {str(ROOT / 'whet')!r}\n")
    with (
        two_trees.Worker(tmp_path) as worker,
        pytest.raises(SystemExit, match=r"the worker ended \(1\)"),
    ):
        worker.turn("call_overhead", None)
    assert f"is not of {tmp_path}" in capfd.readouterr().err
