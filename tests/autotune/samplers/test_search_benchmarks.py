"""The recorded spaces of `benchmarks/search` are whole and hard, and can be replayed."""

from __future__ import annotations

import argparse
import json
import math
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import whet

ROOT = Path(__file__).resolve().parents[3]
SEARCH = ROOT / "benchmarks" / "search"


@pytest.fixture(scope="module")
def modules():
    """The benchmark's modules, which are no package."""
    sys.path[:0] = [str(SEARCH), str(SEARCH.parent)]
    import operators
    import recordings
    import replay

    yield recordings, replay, operators
    sys.path.remove(str(SEARCH))
    sys.path.remove(str(SEARCH.parent))


NAMES = sorted(path.stem for path in (SEARCH / "recorded").glob("*.json"))


def test_every_space_is_recorded(modules):
    recordings, _, _ = modules
    assert set(recordings.SPACES) <= set(NAMES) <= set(recordings.EVERY)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_whole_and_a_searched_space_is_hard(name, modules):
    recordings, _, _ = modules
    recording = recordings.read(name)
    facts = recording.facts()
    assert len(recording.by_config) == facts["configs"] >= 2000
    assert recording.machine["cpu"]
    assert name not in recordings.SPACES or facts["wide"] or facts["rare"], facts
    # A lost worker says nothing about the config: such a record is none.
    assert "infra_error" not in facts["failed"]
    assert recording.seconds[recording.default] > recording.goal, "the default is no challenge"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"args": [1, 2, 3]}, "another space"),
        ({"knobs": {"tile": [1, 2]}}, "another space"),
        ({"costs": [1.0]}, "not whole"),
    ],
)
def test_a_stale_recording_is_refused(change, said, tmp_path, modules):
    recordings, _, _ = modules
    data = json.loads((SEARCH / "recorded" / "softmax.json").read_text())
    (tmp_path / "softmax.json").write_text(json.dumps(data | change))
    with pytest.raises(SystemExit, match=said):
        recordings.read("softmax", tmp_path)
    with pytest.raises(SystemExit, match="no such recording"):
        recordings.read("matmul_odd", tmp_path)


def small(modules, costs, default):
    """A recording of made-up costs, for what needs no task."""
    recordings, _, _ = modules
    made = recordings.Recording("softmax", None, tuple(costs), {})
    made.__dict__["default"] = default
    return made


def test_random_search_is_counted_exactly(modules):
    _, replay, _ = modules
    made = small(modules, [1.0, 1.01, 2.0, 3.0, 4.0, "run_error", 9.0], default=4)
    left = [i for i in range(7) if i != 4]
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        for trials in range(1, 8):  # the default, and then so many draws without replacement
            draws = list(combinations(left, trials - 1))
            there = np.mean([bool({0, 1} & set(draw)) for draw in draws])
            if there >= share - 1e-12:
                break
        assert replay.random_quantile(made, share) == trials
    assert replay.random_quantile(small(modules, [1.0, 2.0], default=0), 0.99) == 1


def test_a_grid_is_counted_exactly(modules):
    _, replay, _ = modules
    assert replay.grid_trials(small(modules, [3.0, 4.0, 1.0, 5.0], default=3)) == 4
    assert replay.grid_trials(small(modules, [3.0, 4.0, 1.0, 5.0], default=1)) == 3
    assert replay.grid_trials(small(modules, [3.0, 1.0], default=1)) == 1


def test_medians_know_what_was_given_up(modules):
    _, replay, _ = modules
    assert replay.quantile([3, 1, 2, math.inf], 0.5) == 2.5
    assert replay.quantile([1, 2, math.inf, math.inf], 0.5) == math.inf
    assert replay.quantile([1, math.inf, math.inf], 0.0) == 1
    assert replay.shown(math.inf, 400) == "400+"


def test_a_space_is_replayed_and_gone_on_with(tmp_path, modules, monkeypatch):
    _, replay, _ = modules
    asked = argparse.Namespace(
        space=["conv2d_1x1"], sampler=["random", "genetic"], seeds=2, cap=16, jobs=1,
        keep=tmp_path / "kept.jsonl",
    )  # fmt: skip
    lines, data = replay.replay(asked)
    assert lines[0].startswith("conv2d_1x1: 2160 configs")
    assert any(line.startswith("median over the spaces: random ") for line in lines)
    assert len(data["spaces"]["conv2d_1x1"]["samplers"]["genetic"]["trials"]) == 2
    assert len(asked.keep.read_text().splitlines()) == 2
    monkeypatch.setattr(replay, "search", None)  # nothing is searched again
    assert replay.replay(asked) == (lines, data)


def test_a_search_is_counted_to_its_first_hit(modules, monkeypatch, tmp_path):
    recordings, replay, _ = modules
    costs = [1.0 if i % 9 == 4 else 2.0 for i in range(2160)]
    made = recordings.Recording("conv2d_1x1", recordings.read("conv2d_1x1").task, tuple(costs), {})
    assert made.seconds[made.default] > made.goal
    monkeypatch.setattr(replay, "read", lambda name: made)
    count = replay.search(replay.Job("conv2d_1x1", "qmc", 3, 200))
    result = replay._tune(made, tmp_path / "more.db", int(count) + 6, "qmc", 3)
    assert next(t.number + 1 for t in result.trials if t.cost == 1.0) == count > 1
    assert replay.search(replay.Job("conv2d_1x1", "qmc", 3, int(count) - 1)) == math.inf


@pytest.mark.parametrize("table", ["LIVE", "TEMPLATES"])
def test_operators_compute_what_they_say(table, modules):
    _, _, operators = modules
    from whet import te, topi

    for operator in getattr(operators, table).values():
        *inputs, output = operator.tensors(te, topi)
        assert [tuple(map(int, t.shape)) for t in inputs] == list(operator.shapes)
        if operator.template is not None:
            name, args = operator.template
            _, taken = whet.create_task(name, args=args, target="llvm").instantiate()
            assert [t.shape for t in taken] == [t.shape for t in (*inputs, output)]


def test_small_operators_have_the_reference_numbers(modules):
    _, _, operators = modules
    from whet import te, topi

    small = [
        operators.matmul(3, 5, 7),
        operators.batch_matmul(2, 3, 5, 4),
        operators.conv2d(3, 7, 4, 3, stride=2),
        operators.depthwise_conv2d(3, 6, 3),
        operators.softmax(4, 9),
        operators.layer_norm(4, 9),
    ]
    for operator in small:
        tensors = operator.tensors(te, topi)
        kernel = whet.build(te.create_schedule(tensors[-1].op), tensors)
        inputs = operator.arrays()
        right = operator.expected(inputs)
        output = np.empty(right.shape, np.float32)
        kernel(*inputs, output)
        operators.check("small", output, right)
    with pytest.raises(SystemExit, match="small: wrong by"):
        operators.check("small", output + 1, right)
