"""AutoTVM's measuring in parts: users' builders, runners and tuners, lines of its logs."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import whet
from whet import autotvm, te
from whet.tvm.autotvm import local
from whet.tvm.autotvm.batch_pool import BatchPool, MeasureBatch
from whet.tvm.autotvm.measure import Builder, Runner

SEEN: list[tuple] = []


@autotvm.template("tests/autotvm_own")
def scaled(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg.define_knob("unroll", [False, True])
    _, inner = cfg["tile"].apply(s, B, B.op.axis[0])
    if cfg["unroll"].val:
        s[B].unroll(inner)
    SEEN.append((cfg.is_fallback, cfg["tile"].size, cfg["unroll"].val))
    return s, [A, B]


@pytest.fixture
def task():
    return autotvm.task.create("tests/autotvm_own", args=(48,), target="llvm -num_threads=2")


class Compiler(Builder):
    """Notes what it is asked, and refuses every candidate that is unrolled."""

    def __init__(self):
        super().__init__(timeout=3, n_parallel=3)
        self.batches = []

    def build(self, measure_inputs):
        self.batches.append([inp.config for inp in measure_inputs])
        no = autotvm.MeasureResult(("no",), autotvm.MeasureErrorNo.COMPILE_HOST, 0.5, 1.7e9)
        made = autotvm.BuildResult("none.so", [((48,), "float32")] * 2, None, 0.25)
        return [no if i.config["unroll"].val else made for i in measure_inputs]


class Clock(Runner):
    """Says how long a tile takes."""

    def run(self, measure_inputs, build_results):
        done = []
        for inp, built in zip(measure_inputs, build_results, strict=True):
            cost = (1 + abs(inp.config["tile"].size[1] - 12)) * 1e-6
            good = autotvm.MeasureResult((cost,), 0, built[3], 1.7e9)
            done.append(built if isinstance(built, autotvm.MeasureResult) else good)
        return done


def option():
    return autotvm.measure_option(builder=Compiler(), runner=Clock())


def in_force(where, target="llvm -num_threads=2"):
    """The choices of the template in a context."""
    with where, whet.Target(target):
        scaled(48)
    return SEEN[-1]


def test_own_halves_write_lines_that_are_applied(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    how, heard = option(), []
    tuner = autotvm.tuner.RandomTuner(task, seed=1)
    callbacks = [
        autotvm.callback.log_to_file("own.log"),
        lambda tuner, inputs, results: heard.extend(zip(inputs, results, strict=True)),
    ]
    result = tuner.tune(20, how, callbacks=callbacks)
    assert how.builder.task is task and max(map(len, how.builder.batches)) <= 3
    assert result.best.config["tile"].size == (4, 12) and not result.best.config["unroll"].val
    assert [p.name for p in tmp_path.iterdir()] == ["own.log"]
    lines = [json.loads(line) for line in (tmp_path / "own.log").read_text().splitlines()]
    assert {line["version"] for line in lines} == {0.2} and len(lines) == len(heard) == 20
    assert {line["result"][1] for line in lines} == {0, 2}
    assert all(e[2][0] == -1 for line in lines for e in line["config"]["entity"] if e[1] == "sp")
    records = list(autotvm.record.load_from_file("own.log"))
    for (inp, res), (said, told) in zip(records, heard, strict=True):
        assert (inp.task, inp.config, inp.target) == (said.task, said.config, task.target)
        assert res.error_no == told.error_no
        assert res.costs == (told.costs if res.error_no == 0 else (1e9,))
    best = (False, (4, 12), False)
    assert in_force(autotvm.apply_history_best("own.log")) == best
    assert in_force(autotvm.apply_history_best(["own.log"]), "llvm") == best
    assert in_force(autotvm.apply_history_best(records)) == best
    autotvm.record.pick_best("own.log", "best.log")
    ((inp, res),) = autotvm.record.load_from_file("best.log")
    assert inp.config == result.best.config and res.costs == (1e-6,)


def test_where_no_record_applies(task, tmp_path):
    config = task.config_space.get(3)
    inp = autotvm.MeasureInput(task.target, task, config)
    good, bad = (autotvm.MeasureResult((cost,), no, 0.1, 1e9) for cost, no in ((1.0, 0), (0.1, 4)))
    with pytest.warns(UserWarning, match="no record has it"):
        assert in_force(autotvm.apply_history_best([(inp, bad)]))[0]
    with pytest.warns(UserWarning, match="for this target"):
        assert in_force(autotvm.apply_history_best([(inp, good)]), "c")[0]
    history = autotvm.apply_history_best([(inp, good)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert in_force(history) == (False, config["tile"].size, config["unroll"].val)
        other = task.config_space.get(9)
        history.update(task.target, task.workload, other)
        assert in_force(history)[1] == other["tile"].size
    row = json.loads(autotvm.record.encode(inp, good))
    row["config"]["entity"][0][2] = [-1, 5]
    (tmp_path / "odd.log").write_text(f"# comment\n\n{json.dumps(row)}\n")
    with pytest.warns(UserWarning, match="the template's knobs are others"):
        assert in_force(autotvm.apply_history_best(str(tmp_path / "odd.log")))[0]
    row["input"][1] = "tests/nobody"
    missing, _ = autotvm.record.decode(json.dumps(row))
    assert (missing.task.name, missing.task.args) == ("tests/nobody", (48,))
    assert autotvm.record.decode(json.dumps(row | {"version": 0.1})) is None
    with pytest.raises(whet.LogError, match="no record of AutoTVM"):
        autotvm.record.decode("{}")
    with pytest.raises(whet.ArgumentError, match="never a pickle"):
        autotvm.record.encode(inp, good, "pickle")


def test_a_tuner_is_asked_and_told(task):
    space = task.config_space
    for kind in (autotvm.tuner.GridSearchTuner, autotvm.tuner.GATuner, autotvm.tuner.RandomTuner):
        tuner, seen = kind(task), []
        measure = autotvm.create_measure_batch(task, option())
        while tuner.has_next():
            batch = tuner.next_batch(7)
            inputs = [autotvm.MeasureInput(task.target, task, c) for c in batch]
            tuner.update(inputs, measure(inputs))
            seen += batch
        assert len(seen) == len(set(seen)) == len(space) and tuner.next_batch(3) == []
        tuner.reset()
        assert tuner.has_next() and len(tuner.next_batch(2)) == 2


class Backwards(autotvm.tuner.Tuner):
    """The space from its end."""

    def __init__(self, task):
        super().__init__(task)
        self.left = list(task.config_space)
        self.told = []

    def has_next(self):
        return bool(self.left)

    def next_batch(self, batch_size):
        return [self.left.pop() for _ in range(min(batch_size, len(self.left)))]

    def update(self, inputs, results):
        self.told += results


def test_a_tuner_of_ones_own(task, tmp_path):
    tuner, heard = Backwards(task), []
    lines = tmp_path / "own.log"
    callbacks = [autotvm.callback.log_to_file(lines), lambda *a: heard.append(a)]
    assert tuner.tune(100, option(), callbacks=callbacks) is None
    assert len(tuner.told) == len(task.config_space) == len(lines.read_text().splitlines())
    assert all(about is tuner for about, _, _ in heard)
    assert tuner.best_config["tile"].size == (4, 12)
    assert tuner.best_flops == pytest.approx(task.flop / 1e-6)
    early = Backwards(task)
    early.tune(100, option(), early_stopping=4)
    assert len(early.told) < len(task.config_space)


def test_history_is_not_measured_again(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    how = option()
    past = [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in range(5)]
    results = autotvm.create_measure_batch(task, how)(past)
    other = autotvm.task.create("tests/autotvm_own", args=(47,), target="llvm")
    past.append(autotvm.MeasureInput(other.target, other, other.config_space.get(0)))
    results.append(results[0])
    how.builder.batches.clear()
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.load_history(zip(past, results, strict=True))
    tuner.tune(6, how, callbacks=[autotvm.callback.log_to_file("a.log")])
    fresh = [c for batch in how.builder.batches for c in batch]
    assert len((tmp_path / "a.log").read_text().splitlines()) == 6
    assert len(set(fresh) - {p.config for p in past}) >= 5
    asked = autotvm.tuner.GridSearchTuner(task)
    asked.load_history(zip(past, results, strict=True))
    rest = asked.next_batch(100)
    assert len(rest) == len(task.config_space) - 5 and not {p.config for p in past} & set(rest)


def test_local_halves_beside_ones_own(task):
    """A runner of one's own gets libraries; LocalRunner runs what a builder of one's own made."""
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in (0, 11)]
    built = autotvm.LocalBuilder().build(inputs)
    a = np.random.default_rng().normal(size=48).astype("float32")
    for one in built:
        assert one.error is None and one.arg_info == [((48,), "float32")] * 2
        out = np.full_like(a, np.nan)
        whet.runtime.load_module(one.filename)(a, out)
        np.testing.assert_array_equal(out, a * 2)
    broken = built[0]._replace(filename="nowhere.so")
    good, bad = autotvm.LocalRunner(number=2, repeat=3).run(inputs, [built[1], broken])
    assert good.error_no == 0 and len(good.costs) == 3 and min(good.costs) > 0
    assert bad.error_no == autotvm.MeasureErrorNo.RUNTIME_DEVICE and "nowhere" in str(bad.costs[0])


def test_libraries_go_with_their_process(task, monkeypatch):
    left = []
    monkeypatch.setattr(local.atexit, "register", lambda *call: left.append(call))
    local._folder.cache_clear()
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(0))
    one, two = [Path(autotvm.LocalBuilder().build([inp])[0].filename) for _ in range(2)]
    assert one != two and one.parents[1] == two.parents[1]
    ((remove, folder, process),) = [call for call in left if call[0] is local._remove]
    remove(folder, process + 1)  # a forked process ends
    assert one.exists() and two.exists()
    remove(folder, process)
    assert not one.parents[1].exists()
    local._folder.cache_clear()


class Forgetful(Compiler):
    """Loses the last candidate of a batch."""

    def build(self, measure_inputs):
        return super().build(measure_inputs)[:-1]


class Counting(Clock):
    def __init__(self):
        super().__init__()
        self.batches = []

    def run(self, measure_inputs, build_results):
        self.batches.append(len(measure_inputs))
        return [*super().run(measure_inputs, build_results)]


def pool_of(task, builder, runner):
    return BatchPool(MeasureBatch(task, builder, runner))


def test_finalists_are_built_once(task):
    builder, runner = Compiler(), Counting()
    pool = pool_of(task, builder, runner)
    configs = [task.config_space.get(i) for i in (0, 1, 2, 3, len(task.config_space) - 1)]
    inputs = [SimpleNamespace(config=config) for config in configs]
    results = pool.remeasure(inputs, 4)
    assert [len(batch) for batch in builder.batches] == [3, 2]
    assert runner.batches == [3, 2] * 4
    for config, result in zip(configs, results, strict=True):
        refused = config["unroll"].val
        assert result.ok is not refused and len(result.costs) == (0 if refused else 4)
    wanted = [[0, 4], [4], []]
    runner.batches.clear()
    pool.remeasure(inputs, lambda costs: wanted.pop(0))
    assert runner.batches == [2, 1] and len(builder.batches) == 4


def test_one_result_for_each_candidate(task):
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(0))
    with pytest.raises(whet.ArgumentError, match=r"Forgetful.build: it returned 2 results for 3"):
        MeasureBatch(task, Forgetful(), Clock())([inp] * 3)

    class Silent(Clock):
        def run(self, measure_inputs, build_results):
            return []

    with pytest.raises(whet.ArgumentError, match=r"Silent.run: it returned 0 results for 1"):
        MeasureBatch(task, Compiler(), Silent())([inp])
