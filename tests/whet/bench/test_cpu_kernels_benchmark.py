"""`benchmarks/cpu_kernels`: its works are what they say, and its verdicts follow the figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import whet
from whet.bench.comparison import Comparison, of_record
from whet.bench.contest import compare
from whet.bench.cpu.place import cores
from whet.bench.operators.table import REFERENCES
from whet.bench.turns import Sample

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "cpu_kernels"
FOLDERS = [str(FOLDER), str(FOLDER.parent / "search"), str(FOLDER.parent)]
TARGET = "llvm -mcpu=x86-64-v3 -num_threads=1"


@pytest.fixture(scope="module")
def modules():
    """The benchmark's modules, which are no package."""
    sys.path[:0] = FOLDERS
    import reach
    import works

    yield works, reach
    for folder in FOLDERS:
        sys.path.remove(folder)


@pytest.fixture
def run(modules, monkeypatch):
    """The command, with what it imports from its neighbours."""
    monkeypatch.setattr(sys, "path", [*FOLDERS, *sys.path])
    import run

    return run


def row(
    ours: float, torch: float, default: float = 0.0, stream: float = 1e-9, flop: int = 100, **more
) -> Comparison:
    """A work whose peak allows 1 s."""
    samples = {"default": Sample((default,) * 9)} if default else {}
    samples |= {
        "tuned": Sample((ours,) * 9),
        "torch out=": Sample((torch,) * 9),
        "torch compiled": Sample((9.0,) * 9),
    }
    names = ("default", "tuned") if default else ("tuned",)
    return Comparison(
        "w", flop, 1, 1, 1, samples, names, frozenset(), (float(flop),), (stream,), {}, (), **more
    )  # fmt: skip


def every_work(works):
    return [(kind, work) for kind, some in works.KINDS.items() for work in some]


def test_each_kind_has_as_many_works_as_its_goals_are_means_of(modules):
    works, _ = modules
    assert {kind: len(some) for kind, some in works.KINDS.items()} == works.COUNTS
    assert works.COUNTS == {"direct": 40, "winograd": 20, "memory": 60, "networks": 20}
    names = [work.name for _, work in every_work(works)]
    assert len(set(names)) == len(names) and not set(names) & set(works.KINDS)
    assert set(works.TRIALS) == set(works.KINDS) >= set(works.ARITHMETIC)


def test_each_work_makes_a_task_that_has_a_reference(modules):
    works, _ = modules
    for kind, work in every_work(works):
        task = work.task(TARGET)
        assert (work.operator is not None) != (work.template in REFERENCES), work.name
        assert all(np.dtype(p.dtype).itemsize == 4 for p in task.kernel_args), work.name
        if kind == "memory":  # its small size fits the first cache
            assert work.few.task(TARGET).bytes <= 34 << 10 < task.bytes, work.name
        else:
            assert not work.small, work.name


def test_direct_works_are_of_every_form(modules):
    works, _ = modules
    direct = [work.task(TARGET) for work in works.KINDS["direct"]]
    sizes = [task.flop for task in direct]
    assert min(sizes) < 2 * 48**3 < 10e6 < max(sizes)
    words = " ".join(work.name for work in works.KINDS["direct"])
    for form in ("nchw", "nhwc", "dilated", "groups", "/2", "conv1d", "conv3d", "batch_matmul"):
        assert form in words
    for work in works.KINDS["winograd"]:
        task = work.task(TARGET)
        assert any(w.startswith("winograd") for w in task.config_space.knobs["algorithm"].choices)


@pytest.mark.parametrize(
    "name", ["group-norm 128x56x56", "hard-swish 96x56x56", "squeeze and excite 256x28x28"]
)
def test_a_graph_is_compared_with_its_reference(name, modules, monkeypatch):
    """A kernel of a graph, small where there is a small size, and all peers that are here."""
    monkeypatch.setattr("whet.bench.cpu.place.MOMENT", 1e-4)
    works, _ = modules
    work = next(w for _, w in every_work(works) if w.name == name)
    few = work.few if work.small else work
    task = few.task("llvm -num_threads=1")
    found = compare(
        cores(1, few.operator), task, {"default": whet.build(task)}, rounds=2, compiled=False
    )
    assert 0 <= found.errors["default"] < 1e-4
    if work.small:
        with pytest.raises(whet.MeasureError, match="wrong by"):
            wrong = works.Work(name, graph=few.graph)
            object.__setattr__(wrong.graph, "work", lambda n, x, *w: n.exp(x))
            compare(
                cores(1, wrong.operator), task, {"default": whet.build(task)}, 2, compiled=False
            )


def test_every_language_has_the_words_of_numpy(modules):
    from whet.bench.operators import in_numpy, in_topi
    from whet.bench.operators.in_onnx import InOnnx

    ours = {name for name in vars(in_topi) if name[0] != "_" and callable(vars(in_topi)[name])}
    ours -= {"Tensor", "Sequence", "Any"}
    assert len(ours) > 35
    for word in sorted(ours):
        assert callable(getattr(in_numpy, word)) and callable(getattr(InOnnx, word)), word
    torch = pytest.importorskip("torch", reason="PyTorch is not here")
    from whet.bench.operators import in_torch

    assert torch and all(callable(getattr(in_torch, word)) for word in ours)


def test_names_choose_kinds_and_works(modules):
    from layers import chosen

    works, _ = modules
    assert len(chosen(works.KINDS, [])) == 140
    found = chosen(works.KINDS, ["winograd", "softmax 1024x1024"])
    assert [kind for kind, _ in found] == ["winograd"] * 20 + ["memory"]
    with pytest.raises(SystemExit, match="no group or work 'memry'; these are:\n  direct: matmul"):
        chosen(works.KINDS, ["memry"])


def figures(verdicts):
    return {v.what: (round(v.measured, 3), v.least, v.short) for v in verdicts}


def test_compute_bound_verdicts_follow_the_figures(modules):
    _, reach = modules
    rows = {"a": row(1.0, 1.2, flop=20_000_000), "b": row(1.25, 1.2, flop=20_000_000),
            "c": row(4.0, 8.0)}  # fmt: skip
    found = figures(reach.judge({"direct": rows, "winograd": {"w": row(1.0, 1.6)}}))
    assert found == {
        "direct: of the FMA peak: geomean of 3": (0.585, 0.93, ()),
        "direct: beside the best peer: geomean of 3": (1.321, 1.12, ()),
        "direct: the least share of the peak from 10 MFLOP on": (0.8, 0.85, ("b",)),
        "Winograd: beside the best peer: geomean of 1": (1.6, 1.5, ()),
        "every work: beside its best peer: works that are not slower, of 4": (3, 4, ("b",)),
    }


def test_memory_bound_works_are_held_against_the_lower_limit(modules):
    _, reach = modules
    rows = {
        "stream": row(2.0, 3.0, stream=1.9, instructions=(0.5, 0.6)),
        "instructions": row(4.0, 4.0, stream=1.0, instructions=(3.4, 3.2)),
    }
    found = figures(reach.judge({"memory": rows}))
    assert found["memory-bound: of the lower limit: geomean of 2"] == (0.872, 0.85, ())
    assert found["memory-bound: beside the best peer: geomean of 2"] == (1.225, 1.5, ())


def test_small_depthwise_works_are_depthwise(modules):
    """A single channel would be scheduled as a plain convolution."""
    works, _ = modules
    small = [w.small for w in works.KINDS["memory"] if w.template.startswith("depthwise")]
    assert len(small) == 9 and all(args[1] >= 2 for args in small)


def test_no_limit_of_a_memory_bound_work_is_above_the_peak():
    """Windows: the small kernel may be refuted, and the stream short; the peak is 1 s."""
    refuted = row(1.25, 3.0, stream=0.1, instructions=(1.4, 1.5))
    assert refuted.instruction_limit == 0 and refuted.moving_limit == 1.0
    padded = row(1.25, 3.0, stream=0.1, instructions=(0.5,))  # few steps of the small size count
    assert padded.moving_limit == 1.0
    skipping = row(0.9, 3.0, stream=0.1)  # a tenth of the steps is padding
    assert skipping.moving_limit == 0.9


def test_defaults_and_networks(modules):
    _, reach = modules
    rows = {"x": row(1.0, 1.2, default=1.25), "y": row(1.0, 1.2, default=1.0)}
    found = figures(reach.judge({"networks": rows}))
    assert found["parts of networks: beside torch.compile: geomean of 2"] == (9.0, 1.3, ())
    assert found["default, as a part of tuned: geomean of 2"] == (0.894, 0.95, ())
    assert found["default: the least part of tuned"] == (0.8, 0.85, ("x",))
    shown = reach.Verdict("x", 0.5, 0.9, ("a", "b"))
    assert str(shown) == "NOT REACHED  0.500 (at least 0.9)  x: a, b"


def test_two_threads_are_held_against_one_and_against_the_peers(modules):
    _, reach = modules
    samples = {
        n: Sample((s,) * 9) for n, s in (("one thread", 1.9), ("tuned", 1.0), ("torch", 0.9))
    }
    found = Comparison(
        "w", 100, 1, 1, 2, samples, ("one thread", "tuned"), frozenset(), (190.0,), (1.0,), {}, (),
        lone_peaks=(100.0,),
    )  # fmt: skip
    assert figures(reach.judge_threads({"direct": {"w": found}})) == {
        "two threads: compute-bound, of the peaks' ratio: geomean of 1": (1.0, 0.92, ()),
        "two threads: beside our one: works that are not slower, of 1": (1, 1, ()),
        "two threads: beside the best peer on two: works that are not slower, of 1": (
            0, 1, ("w",),
        ),
    }  # fmt: skip


def test_a_peer_that_packed_its_weights_counts_beside_ours_that_did():
    samples = {
        "tuned": Sample((2.0,)),
        "onnxruntime packed": Sample((1.0,)),
        "torch": Sample((3.0,)),
    }
    same = {"samples": samples, "ours": ("tuned",), "packed": frozenset({"onnxruntime packed"})}
    rest = ((1.0,), (1.0,), {}, ())
    one = Comparison("w", 1, 1, 1, 1, *same.values(), *rest)
    assert one.peer() == "torch" and one.peer("onnx") is None
    both = Comparison("w", 1, 1, 1, 1, *same.values(), *rest, packs=True)
    assert both.peer() == "onnxruntime packed"


def test_the_interval_is_that_of_the_paired_ratios_median():
    rng = np.random.default_rng(0)
    slow = rng.uniform(1, 3, 25)  # moments of the machine, which strike both alike
    samples = {
        "tuned": Sample(tuple(slow)),
        "torch": Sample(tuple(slow * rng.normal(1.2, 0.02, 25))),
    }
    found = Comparison(
        "w", 1, 1, 1, 1, samples, ("tuned",), frozenset(), (1.0,), (1.0,), {}, ()
    )  # fmt: skip
    low, high = found.interval("torch")
    assert 1.15 < low < 1.2 < high < 1.25
    ratios = sorted(b / a for a, b in zip(samples["tuned"].seconds, samples["torch"].seconds))
    assert (low, high) == (ratios[7], ratios[17])  # the 8th and the 18th of 25: 95.7 %


def test_a_library_that_is_not_there_is_no_verdict(modules):
    _, reach = modules
    alone = Comparison(
        "w", 100, 1, 1, 1, {"tuned": Sample((2.0,))}, ("tuned",), frozenset(), (100.0,), (1.0,),
        {}, (),
    )  # fmt: skip
    assert reach.against(alone) is None
    assert reach.judge({"winograd": {"c": alone}, "networks": {"d": alone}}) == []


def test_a_result_comes_back_from_its_line(tmp_path, modules, run):
    from resume import Records

    found = row(1.0, 1.2, default=1.25, instructions=(0.5,))
    key = {"work": "w", "threads": 1, "sizes": (1, 2)}
    records = Records(tmp_path / "r.jsonl")
    assert records.find(key) is None
    records.add(key, found.record())
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"key": {"work"')  # a process that was stopped
    again = Records(tmp_path / "r.jsonl")
    assert of_record(again.find(key)) == found and again.find({**key, "threads": 2}) is None
    again.add({**key, "threads": 2}, row(2.0, 1.0).record())
    assert of_record(Records(tmp_path / "r.jsonl").find({**key, "threads": 2})) == row(2.0, 1.0)


def test_a_run_goes_on_work_by_work(tmp_path, modules, run, monkeypatch, capsys):
    works, _ = modules
    argv = ["run.py", "--only", "direct", "--resume", str(tmp_path / "r.jsonl"), "--trials", "0"]
    monkeypatch.setattr(sys, "argv", argv)
    seen = []

    def stopped(work, kind, options):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(work.name)
        if len(seen) == 1:
            raise whet.SpaceError("template 'x'", "it is not here")
        return row(1.0, 2.0)

    monkeypatch.setattr(run, "measured", stopped)
    with pytest.raises(SystemExit):
        run.one(run.parsed())
    out = capsys.readouterr().out
    first, second, third = (work.name for work in works.KINDS["direct"][:3])
    assert f"{first:30s} FAILED: template 'x': it is not here" in out
    assert "[2/40" in out and "goes on with the next work" in out
    assert f"FAILED      direct: {first}" in out
    seen.clear()
    with pytest.raises(SystemExit):  # the one that failed is tried again, the other one is known
        run.one(run.parsed())
    assert seen == [first, third]
    assert second in capsys.readouterr().out


def test_each_width_and_number_of_threads_is_a_process(tmp_path, modules, run, monkeypatch):
    calls = []

    class Child:
        def __init__(self, command, env):
            calls.append((command[-4:], env))

        def wait(self):
            return 0

    monkeypatch.setattr(run.subprocess, "Popen", Child)
    monkeypatch.setattr(run, "widths", lambda: (512, 256))
    monkeypatch.setattr(run.host, "vector_bytes", lambda: 64)
    monkeypatch.setattr(run, "numpy_threads", lambda: 1)
    argv = ["run.py", "--width", "512", "256", "--threads", "1", "2", "--trials", "0"]
    monkeypatch.setattr(sys, "argv", argv)
    run.main()
    assert [command for command, _ in calls] == [
        ["--width", w, "--threads", t] for w in ("512", "256") for t in ("1", "2")
    ]
    assert [env and env["WHET_CPU"] for _, env in calls] == [None, None, *["x86-64-v3"] * 2]


def test_tvm_is_compared_operator_by_operator(tmp_path, run, monkeypatch, capsys):
    import live
    from resume import Records

    asked = []

    def compared(name, options, ours_first):
        asked.append(name)
        if name.startswith("softmax"):
            raise SystemExit("TVM ended (1):\nmore")
        times = {"best": 1.0, "median": 1.0, "trials": options.trials, "failed": 0, "seconds": 2.0}
        theirs = times | {"best": 2.0, "median": 1.5, "start_seconds": 1.0}
        return {"name": name, "ours": times, "tvm": theirs, "ours_first": ours_first}

    monkeypatch.setattr(live, "compare", compared)
    argv = ["run.py", "--only", "--tvm", "python", "--resume", str(tmp_path / "r.jsonl")]
    monkeypatch.setattr(sys, "argv", argv)
    results, records = run.Results(), Records(tmp_path / "r.jsonl")
    run.beside_tvm(results, records, run.parsed())
    wins, mean = results.verdicts
    assert (wins.measured, wins.least, wins.short) == (15, 15, ())
    assert mean.measured == pytest.approx(2.0) and mean.least == 1.5
    assert len(live.LIVE) == 16
    rows = results.more["tvm"]["rows"]
    assert [row["name"] for row in rows] == [n for n in live.LIVE if "softmax" not in n]
    assert {row["ours_first"] for row in rows} == {True, False}
    assert {row["ours"]["trials"] for row in rows} == {64}
    out = capsys.readouterr().out
    assert out.count("2.00 x TVM") == 15 and "FAILED: TVM ended (1):\n" in out
    asked.clear()
    run.beside_tvm(run.Results(), Records(tmp_path / "r.jsonl"), run.parsed())
    assert asked == ["softmax 1536x128"]


def test_the_command_measures_prints_and_resumes(tmp_path):
    """The whole command on one small work, twice: the second one measures nothing."""
    path = tmp_path / "r.jsonl"
    command = [sys.executable, str(FOLDER / "run.py"), "--only", "matmul 16x16x16", "--trials", "0"]
    command += ["--rounds", "3", "--no-compile", "--resume", str(path)]
    first, again = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert "[1/1] direct: matmul 16x16x16" in first and "[1/1]" not in again
    assert "direct: of the FMA peak: geomean of 1" in again
    (line,) = path.read_text().splitlines()
    key = json.loads(line)["key"]
    assert key["work"] == "matmul 16x16x16" and {"width", "threads", "versions", "cpu"} <= set(key)
