"""AutoTVM's logs of version 0.2: applied where a template has the same knobs, else history."""

from __future__ import annotations

import json

import pytest

import whet
from whet import autotvm, te
from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.db.exchange import import_log
from whet.db.exchange.autotvm import ELSEWHERE, FOREIGN
from whet.db.values.identity import device_key

NAME = "autotvm_lines/matmul"


@autotvm.template(NAME)
def matmul(n, dtype):
    a = te.placeholder((n, n), name="A", dtype=dtype)
    b = te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    (z,) = s[c].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("unroll", [0, 1])
    cfg.define_reorder("order", [y, x], "all")
    cfg.define_annotate("ann", [x], "try_vec")
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, z, yi, xi)
    if cfg["unroll"].val:
        s[c].unroll(yi)
    cfg["ann"].apply(s, c, [xi])
    return s, [a, b, c]


def entity(y=4, x=8, unroll=1, order=(1, 0), word="vec"):
    return [
        ["tile_y", "sp", [-1, y]],
        ["tile_x", "sp", [-1, x]],
        ["unroll", "ot", unroll],
        ["order", "re", list(order)],
        ["ann", "an", [word]],
    ]


def line(
    costs=(1e-3,), error=0, when=1.7e9, target="llvm -keys=cpu -link-params=0", name=NAME, **more
):
    record = {
        "input": [target, name, [16, "float32"], {}],
        "config": {"index": 7, "code_hash": None, "entity": entity()},
        "result": [list(costs), error, 0.25, when],
        "version": 0.2,
        "tvm_version": "0.11.1",
    }
    return json.dumps(record | more)


def config_of(**knobs):
    return {"config": {"index": 1, "code_hash": "abc", "entity": entity(**knobs)}}


@pytest.fixture
def log(tmp_path):
    with TuningLog(tmp_path / "whet.db") as log:
        yield log


def put(tmp_path, *texts):
    path = tmp_path / "autotvm.log"
    path.write_text("\n".join(texts) + "\n")
    return path


def test_a_record_is_of_the_templates_space_and_builds(log, tmp_path):
    texts = [
        line([3e-3, 1e-3, 2e-3], **config_of(y=2, x=4)),
        line([5e-4], when=1.7e9 + 5, **config_of(y=4, x=8)),
        line([1e9], 4, **config_of(y=8, x=8, unroll=0)),
        line([1e9], 7, **config_of(y=16, x=16, word="none")),
    ]
    path = put(tmp_path, *texts)
    taken = import_log(log, path)
    assert (taken.runs, taken.trials, taken.applied, taken.history) == (1, 4, 4, 0)
    task = whet.create_task(NAME, args=(16, "float32"), target="llvm")
    (run,) = log.runs()
    assert (run.sampler, run.fingerprint) == ("autotvm", task.config_space.fingerprint)
    assert run.target == task.target.to_json() and run.versions == {"tvm": "0.11.1"}
    assert (run.started_at, run.finished_at) == (1.7e9, 1.7e9 + 5)
    found = log.trials()
    assert [t.number for t in found] == [1, 2, 3, 4]  # number 0 is the default config's
    assert [t.result.status for t in found] == ["ok", "ok", "run_error", "run_timeout"]
    assert found[0].cost == 2e-3 and found[1].config.choice("tile_y") == (4, 4)
    assert found[1].config.choice("ann") == ("vec",) and found[1].config in task.config_space
    # No machine is named: its records apply where it is.
    with pytest.raises(LogError):
        whet.build(task, log=log)
    kernel = whet.build(task, log=log, device=device_key(ELSEWHERE))
    assert kernel.entry_name.startswith("autotvm_lines")
    with TuningLog(tmp_path / "own.db") as own:
        import_log(own, path, device="cpu")
        assert own.best_in(task.config_space, task.workload, task.target).cost == 5e-4
        assert whet.build(task, log=own) is not None


def test_a_file_that_grows_adds_what_is_new(log, tmp_path):
    texts = [line([1e-3 * i], **config_of(y=2**i)) for i in range(1, 4)]
    assert import_log(log, put(tmp_path, *texts[:2])).trials == 2
    assert import_log(log, put(tmp_path, *texts)).trials == 1
    assert import_log(log, put(tmp_path, *texts)).trials == 0
    assert len(log.runs()) == 1 and [t.number for t in log.trials()] == [1, 2, 3]
    # Another file's trials of the same task are another run.
    assert import_log(log, put(tmp_path, texts[2])).runs == 1


HISTORY = {
    "no template": (line(name="topi/conv2d"), "no template 'topi/conv2d' is registered"),
    "other arguments": (
        line(input=["llvm", NAME, [16, "float32", 3], {}]),
        "the template does not take it",
    ),
    "another knob": (
        line(config={"index": 0, "entity": [*entity(), ["more", "ot", 1]]}),
        "there is no knob 'more'",
    ),
    "a knob less": (line(config={"index": 0, "entity": entity()[1:]}), "no knob 'tile_y'"),
    "another kind": (
        line(config={"index": 0, "entity": [["unroll", "re", [0]], *entity()[:2]]}),
        "there is no reorder 'unroll'",
    ),
    "another choice": (line(**config_of(y=5)), "split 'tile_y' has no choice (-1, 5)"),
    "another target": (line(target="opencl -device=mali"), "its target is none here"),
}


@pytest.mark.parametrize("case", HISTORY)
def test_what_no_template_has_is_history(log, tmp_path, case, capsys):
    from whet.cli import main

    text, why = HISTORY[case]
    taken = import_log(log, put(tmp_path, text))
    assert (taken.applied, taken.history) == (0, 1)
    (run,), (trial,) = log.runs(), log.trials()
    assert run.fingerprint.startswith(FOREIGN) and trial.config.fingerprint == run.fingerprint
    assert why in run.options["autotvm"]["why"] and trial.cost == 1e-3
    assert main(["log", "list", log.location]) == 0
    shown = capsys.readouterr().out
    assert "AutoTVM's, history alone: " in shown and "1/1" in shown
    copy = tmp_path / "copy.jsonl"
    assert log.export_json(copy) == 1
    with TuningLog(tmp_path / "copy.db") as other:
        assert other.import_json(copy) == 1


BROKEN = {
    "older": (line(version=0.1), "version 0.1"),
    "newer": (line(version=0.3), "version 0.3"),
    "no input": (line(input=["llvm", NAME]), r"is \[target, task, args, kwargs\]"),
    "a task of a number": (line(input=["llvm", 1, [], {}]), "text, text, list"),
    "no entity": (line(config={}), "needs 'entity'"),
    "an unknown kind": (line(config={"entity": [["a", "xx", 1]]}), "an entity of AutoTVM"),
    "an object as value": (line(config={"entity": [["a", "ot", {}]]}), "dict"),
    "no costs": (line([]), "finite and above 0"),
    "a text as cost": (line(["1"]), "finite and above 0"),
    "an error of its own": (line(error=99), "has no error 99"),
    "a true error": (line(error=True), "has no error True"),
    "no time": (line(when=None), "finite numbers"),
    "no result": (line(result=[1]), "costs, error, seconds, time"),
    "objects as arguments": (line(input=["llvm", NAME, [{"a": 1}], {}]), "dict"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_record_of_autotvm(log, tmp_path, case):
    text, said = BROKEN[case]
    path = put(tmp_path, line(), text, line(**config_of(y=2)))
    with pytest.raises(LogError, match="line 2.*" + said):
        import_log(log, path)
    assert not log.runs()
    taken = import_log(log, path, skip_broken=True)
    assert (taken.trials, len(taken.skipped)) == (2, 1)


def test_a_template_that_raises_is_no_end(log, tmp_path):
    @autotvm.template("autotvm_lines/raises")
    def raises(n, dtype):
        raise KeyError("whatever")

    import_log(log, put(tmp_path, line(name="autotvm_lines/raises")))
    assert "whatever" in log.runs()[0].options["autotvm"]["why"]
