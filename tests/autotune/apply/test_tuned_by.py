"""What a kernel says of where its config comes from, and what is said where nothing applies."""

import json
import pickle
import shlex
import subprocess
import sys

import pytest
from apply_logs import COLUMNS, record, said, scale, scale_task, tiled

import whet
from whet.autotune import create_task
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.errors import ArtifactError, LogError
from whet.compiler.target import Target
from whet.db.tune_command import target_text, tune_command, word
from whet.measure.device.identity import device_of
from whet.measure.device.names import this_device
from whet.search_spaces import Workload


def test_tuned_by_survives_export_pickling_and_json(logs, task, tmp_path):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    with whet.apply_best(a):
        kernel = whet.build(task)
    found = kernel.tuned_by
    for name in ("k.so", "k.tar", "k.o"):
        kernel.export_library(tmp_path / name)
        loaded = whet.runtime.load_module(tmp_path / name)
        assert loaded.tuned_by == found
    loaded.export_library(tmp_path / "again.o")
    assert whet.runtime.load_module(tmp_path / "again.o").tuned_by == found
    assert pickle.loads(pickle.dumps(found)) == found
    artifact = pickle.loads(pickle.dumps(kernel.artifact))
    assert whet.runtime.Module.from_artifact(artifact).tuned_by == found
    assert TunedBy.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert hash(found) == hash(TunedBy.from_json(found.to_json()))
    assert str(found).startswith("exact: test/apply_scale(64, 64) on cpu-")
    whet.build(task).export_library(tmp_path / "plain.tar")
    assert whet.runtime.load_module(tmp_path / "plain.tar").tuned_by is None


def test_lowering_first_keeps_it(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    with whet.apply_best(a), task.target:
        schedule, args = scale(*task.args)
        found = schedule.tuned_by
        mod = whet.lower(schedule, args, name="f")
    assert found.how == "exact"
    assert whet.build(mod, target=task.target).tuned_by == found
    assert whet.build({task.target: mod}).tuned_by == found
    assert whet.build(mod["f"], target=task.target).tuned_by == found
    assert whet.build([schedule], args, task.target).tuned_by == found
    assert whet.lower(mod)["f"].attrs["tuned_by"] == found
    plain = whet.lower(*task.instantiate(), name="f")
    schedule.tuned_by = None
    mine = whet.lower(schedule, args, name="f")
    assert whet.build(plain, target=task.target).tuned_by is None
    assert mine.program_hash() == mod.program_hash()  # the same program, whoever chose it


def test_each_function_of_a_list_says_its_own(logs, task, tmp_path):
    a, _ = logs
    other = scale_task(32)
    record(a, task, tiled(task, 4), 1e-6)
    with said(), whet.apply_best(a), task.target:
        mods = [whet.lower(*scale(*t.args), name=n) for n, t in (("f", task), ("g", other))]
    mods.append(whet.lower(*other.instantiate(), name="h"))
    kernels = whet.build(mods, target=task.target)
    kernels.export_library(tmp_path / "k.so")
    for module in (kernels, whet.runtime.load_module(tmp_path / "k.so")):
        hows = {name: module[name].tuned_by for name in ("f", "g", "h")}
        assert (hows["f"].how, hows["f"].workload) == ("exact", str(task.workload))
        assert (hows["g"].how, hows["g"].workload) == ("default", str(other.workload))
        assert hows["h"] is None and module.tuned_by == hows["f"]
    assert whet.build(mods[::-1], target=task.target).tuned_by == hows["g"]  # h has none


def test_modules_that_import_others_say_theirs(logs, task, tmp_path):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    with whet.apply_best(a):
        inner = whet.build(task, name="inner")
    outer = whet.build(scale_task(32), name="outer")
    outer.import_module(inner)
    assert outer["outer"].tuned_by is None and outer.tuned_by == inner.tuned_by
    assert outer.get_function("inner", True).tuned_by == inner.tuned_by
    outer.export_library(tmp_path / "k.so")
    assert whet.runtime.load_module(tmp_path / "k.so").tuned_by == inner.tuned_by


def test_a_schedule_on_a_gpu_says_it_too(logs):
    a, _ = logs
    task = create_task("matmul", args=(16, 16, 16), target="cuda -arch=sm_80")
    here = device_of(task.target, "cuda-emulator")
    record(a, task, task.config_space.default, 1e-6, device=here)
    kernel = whet.build(task, log=a, device="cuda-emulator")
    assert kernel.tuned_by.how == "exact" and kernel.tuned_by == kernel.entry_func.tuned_by


def test_a_library_of_before_says_it_for_its_entry(task):
    from whet.compiler.runtime.described import artifact_of
    from whet.compiler.runtime.library.export import metadata

    sound = TunedBy("exact", "w", "llvm", "cpu-1", 1.0, (1, 2), "a.db", "best")
    data = json.loads(metadata(whet.build(task)))
    name = data["signatures"][0]["name"]
    assert artifact_of(data | {"tuned_by": sound.to_json()}).tuned_by == {name: sound}
    assert artifact_of(data | {"tuned_by": None}).tuned_by == {}


@pytest.mark.parametrize(
    "change",
    [
        {"how": "magic"},
        {"how": None},
        {"cost": "1"},
        {"cost": -1.0},
        {"cost": float("nan")},
        {"trial": [1]},
        {"trial": [1, "2"]},
        {"trial": "12"},
        {"why": 7},
        {"workload": ["x"]},
    ],
)
def test_damaged_words_about_it_are_an_artifact_error(change, task):
    from whet.compiler.runtime.library.export import metadata
    from whet.compiler.runtime.load import _module

    sound = TunedBy("exact", "w", "llvm", "cpu-1", 1.0, (1, 2), "a.db", "best")
    with pytest.raises(ValueError):
        TunedBy.from_json(sound.to_json() | change)
    data = json.loads(metadata(whet.build(task))) | {"tuned_by": sound.to_json() | change}
    with pytest.raises(ArtifactError, match="what it tells of itself is damaged"):
        _module("load", data, None)
    data["tuned_by"] = {"f": sound.to_json() | change}
    with pytest.raises(ArtifactError, match="what it tells of itself is damaged"):
        _module("load", data, None)
    for wrong in ([], "exact", 3, {"how": "exact"}):
        with pytest.raises(ValueError):
            TunedBy.from_json(wrong)


def parsed(line):
    """What the command line makes of a copied line: the command's parameters."""
    from whet.commands.tune import command

    words = shlex.split(line)
    assert words[:2] == ["whet", "tune"]
    with command.make_context("whet tune", words[2:]) as context:
        return context.params


@pytest.mark.parametrize(
    "name, args, shown",
    [
        ("matmul", (128, 64, 32), "128 64 32"),
        ("matmul", (128, 64, 32, True, False, "float64"), "128 64 32 True False float64"),
        ("conv2d_nchw", (1, 8, 9, 9, 8, 3, 3, (2, 2)), "1 8 9 9 8 3 3 '(2, 2)'"),
        ("softmax", ((6, 7), -1), "'(6, 7)'"),
    ],
)
def test_the_line_of_a_built_in_template_makes_the_same_workload(name, args, shown):
    from whet.commands.words import value

    task = whet.create_task(name, args=args, target="llvm")
    line = tune_command(task.workload, task.target, None, "my log.db")
    given = parsed(line)
    again = whet.create_task(given["op"], tuple(map(value, given["args"])), given["target"])
    assert again.workload == task.workload and again.target == task.target
    assert given["log"] == "my log.db"
    if name != "conv2d_nchw":  # whose numbers become pairs
        assert line == f"whet tune --op {name} --args {shown} --log 'my log.db'"


@pytest.mark.parametrize(
    "argument",
    [1, -1, 2.5, "float32", "true", "false", "12", "", "-x", "(1, 2)", "None", "a b", "'", True,
     None, (1, 1), ((1, 2), "NCHW"), "$HOME", "`x`", "\\"],
)  # fmt: skip
def test_arguments_come_through_the_command_line(argument):
    from whet.commands.words import spread, value

    line = shlex.join(["--args", word(argument), "--log", "x"])
    (first, *_) = spread(shlex.split(line))
    found = value(first.removeprefix("--args="))
    assert Workload("w", (found,)) == Workload("w", (argument,))


SCRIPT = """
import whet
from whet import te
@whet.template("mine/add")
def add(n):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    cfg = whet.get_config()
    cfg.define_split("tile", b.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, b, b.op.axis[0])
    return s, [a, b]

x = te.placeholder((64,), name="X")
relu = whet.create_task(outputs=[te.compute((64,), lambda i: te.max(x[i], 0.0), name="Y")])

if __name__ == "__main__":
    open("a.db", "a").close() or whet.TuningLog("a.db").close()
    with whet.apply_best("a.db"), whet.Target("llvm"):
        add(48)
        whet.build(relu)
"""


def test_the_lines_of_a_script_are_copied_and_run(tmp_path, monkeypatch):
    """The warning's own words, given to a shell: they tune what was missing."""
    from whet.commands.words import load_task, value

    (tmp_path / "kernels.py").write_text(SCRIPT)

    def run(*command):
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)

    first = run(sys.executable, "kernels.py")
    lines = [one.strip() for one in first.stderr.splitlines() if "whet tune " in one]
    assert [shlex.split(line)[2] for line in lines] == ["kernels.py:add", "kernels.py:relu"], first
    words = [sys.executable, "-m", "whet.cli", *shlex.split(lines[1])[1:]]
    done = run(*words, "--trials", "2", "--sampler", "random", "--quiet")
    assert done.returncode == 0, done.stderr
    again = run(sys.executable, "kernels.py")
    assert again.returncode == 0, again.stderr
    assert lines[0] in again.stderr and lines[1] not in again.stderr
    monkeypatch.chdir(tmp_path)
    given = parsed(lines[0])
    task = load_task(given["tasks"][0], tuple(map(value, given["args"])), given["target"])
    assert (task.name, task.args) == ("mine/add", (48,))


def test_a_device_that_was_asked_for_is_not_called_this_machine(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    invented = "cpu-0123456789ab"
    with pytest.raises(LogError) as caught:
        whet.build(task, log=a, device=invented)
    text = str(caught.value)
    assert f"it has no record of {invented}, which was asked for; tuned on: " in text
    assert f"leave device= out: {this_device()} is this machine" in text
    assert f"this is {invented}" not in text and f"device={this_device()!r}" not in text
    record(a, task, tiled(task, 4), 1e-6, device={"cpu": "Big CPU", "fingerprint": "cpu-big"})
    with pytest.raises(LogError, match="; or accept another's records: device='cpu-big'"):
        whet.build(task, log=a, device=invented)
    with pytest.raises(LogError, match=r"tuned on: Big CPU \(cpu-big\)\n  accept another's"):
        other = scale_task(32)
        record(a, other, tiled(other, 4, **COLUMNS), 1e-6, device="cpu-big")
        record(a, scale_task(16), tiled(scale_task(16), 4), 1e-6)
        whet.build(other, log=a, device={"cpu": "Big CPU", "fingerprint": invented})


def test_targets_in_commands_are_short():
    """Without what follows from the processor; what it does not imply stays."""
    for text in (
        "llvm",
        "llvm -num_threads=3",
        "llvm -mcpu=x86-64-v2",
        "llvm -mcpu=x86-64-v3 -num_threads=2",
        "llvm -fast_math=True -mcpu=x86-64-v4",
        "llvm -mattr=+avxvnni -mcpu=x86-64-v3",
        "llvm -mcpu=x86-64-v4 -vector_bytes=32",
        "llvm -mtriple=aarch64-linux-gnu",
        "cuda",
    ):
        target = Target(text).canonical()
        found = target_text(target)
        assert Target(found).canonical() == target
        assert len(found) <= len(text), found
