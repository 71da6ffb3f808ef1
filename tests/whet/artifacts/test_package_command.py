"""``whet package``: configs from a log and why, its errors, and what it shows."""

import os
import shutil
import warnings

import pytest
from packaged import check_numbers, compiler, index_and_blobs, sealed, tasks

import whet
import whet.autotune.deploy
from whet.autotune.apply import estimated
from whet.cli import main
from whet.compiler.errors import ArgumentError, ArtifactError, LogError, TargetError
from whet.compiler.runtime.package.link import LEVELS, level_target
from whet.compiler.target.machine import host
from whet.measure import MeasureResult

pytestmark = pytest.mark.skipif(not compiler(), reason="no C compiler here, or no ELF")
X86 = pytest.mark.skipif(host.architecture() != "x86_64", reason="levels are x86-64's")
OLDER = "x86-64-v2"

FILE = """
import whet
product = whet.create_task("matmul", args=(24, 40, 56), target="llvm")
other = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
alike = [product, other]
named = {"first": product, "second": other}

def made():
    return [product]

def bad():
    return 7
"""


@pytest.fixture(scope="module")
def product():
    return tasks()["product"]


def record(location, task, cost, device=None, which=1):
    """Record the default config and another one, which costs that many seconds; the latter."""
    space = task.config_space
    configs = list(space.neighbours(space.default))
    chosen = configs[which]
    with whet.TuningLog(location) as log:
        run = log.start_run(
            task.workload, task.target, device, space.fingerprint, "grid", 0, {}, {}
        )
        for number, (config, seconds) in enumerate([(space.default, 1.0), (chosen, cost)]):
            log.add_trial(run, number, config, MeasureResult("ok", costs=(seconds,)), task.flop)
        log.finish_run(run, "finished")
    return chosen


def near_and_no_slower(task):
    """A near task, and the neighbour of a task's default that is estimated to be no slower there.

    Which ones these are depends on the processor: a neighbour that is slower than the near task's
    own default is not taken from a log.
    """
    for sizes in ((48, 40, 56), (32, 40, 56), (24, 48, 56), (24, 40, 64), (20, 36, 48)):
        near = whet.create_task("matmul", args=sizes, target="llvm")
        for which, config in enumerate(task.config_space.neighbours(task.config_space.default)):
            fitted = near.config_space.nearest(config.as_dict())
            seen = estimated(near.workload, near.target, fitted)
            if not seen.refusal and seen.seconds <= seen.default:
                return near, which
    raise AssertionError("no neighbour is estimated to be as fast as a near task's default")


def on_level(task, level):
    return whet.create_task(task.template, task.args, level_target("test", task.target, level))


@pytest.fixture
def log(tmp_path, product):
    """A log with a best config of the product for its own target."""
    record(tmp_path / "whet.db", product, 2e-6)
    return str(tmp_path / "whet.db")


@X86
def test_a_kernel_has_the_best_config_of_the_log(log, product, tmp_path):
    best = whet.autotune.deploy.best_from_log(product, log)
    index = whet.package(product, tmp_path / "k.whet", log, levels=["own"])
    (variant,) = index.kernels[0].variants
    assert variant.config == best.config.as_dict() != product.config_space.default.as_dict()
    assert variant.tuned_by["how"] == "exact" and variant.tuned_by["cost"] == 2e-6
    assert variant.tuned_by["trial"][1] == 1 and variant.tuned_by["log"] == "whet.db"
    assert variant.tuned_by["device"] == host.fingerprint()
    package = whet.load(tmp_path / "k.whet")
    assert package.tuned_by("matmul") == variant.tuned_by
    live = whet.build(product, log=log)
    assert str(package["matmul"].signature) == str(live.entry_func.signature)
    again = whet.package(product, tmp_path / "again.whet", log, levels=["own"])
    assert again == index
    assert (tmp_path / "again.whet").read_bytes() == (tmp_path / "k.whet").read_bytes()


@X86
def test_an_older_level_takes_its_own_record_else_the_nearest_config(log, product, tmp_path):
    index = whet.package(product, tmp_path / "k.whet", log, levels=["own", OLDER])
    if len(index.libraries) == 1:
        pytest.skip("this machine passes for the oldest level")
    own, older = index.kernels[0].variants
    assert (own.tuned_by["how"], older.tuned_by["how"]) == ("exact", "target")
    assert older.tuned_by["cost"] == 2e-6 and older.tuned_by["target"] == str(product.target)
    assert older.tuned_by["why"].startswith("no record for llvm x86-64-v2")
    task = on_level(product, OLDER)
    assert task.config_space.from_choices(older.config)
    chosen = record(log, task, 3e-6, which=2)
    older = whet.package(product, tmp_path / "k.whet", log, levels=[OLDER]).kernels[0].variants[0]
    assert older.tuned_by["how"] == "exact" and older.tuned_by["cost"] == 3e-6
    assert older.config == chosen.as_dict()


def test_records_of_another_machine(product, tmp_path):
    log = tmp_path / "whet.db"
    record(log, product, 5e-6, device="cpu-other", which=1)
    last = record(log, product, 7e-6, device="cpu-last", which=2)
    index = whet.package(product, tmp_path / "k.whet", log, levels=["own"])
    (variant,) = index.kernels[0].variants
    assert variant.tuned_by["how"] == "device"
    assert variant.config == last.as_dict() and variant.tuned_by["device"] == "cpu-last"
    index = whet.package(product, tmp_path / "k.whet", log, levels=["own"], device="cpu-other")
    assert index.kernels[0].variants[0].tuned_by["device"] == "cpu-other"
    assert index.kernels[0].variants[0].tuned_by["how"] == "exact"  # it was asked for
    with pytest.raises(LogError):
        whet.package(product, tmp_path / "k.whet", log, device="cpu-nobody")


def test_how_far_a_package_goes_is_said_as_for_every_build(product, tmp_path):
    log, path = tmp_path / "whet.db", tmp_path / "k.whet"
    near, which = near_and_no_slower(product)
    chosen = record(log, product, 5e-6, device="cpu-other", which=which)
    with pytest.raises(LogError, match="tuned on other machines only"):
        whet.package(product, path, log, levels=["own"], fallback="none")
    with pytest.raises(LogError, match="never tuned"):
        whet.package(near, path, log, levels=["own"])
    for given in (near, product):
        (kernel,) = whet.package(given, path, log, levels=["own"], fallback="shape").kernels
        by = kernel.variants[0].tuned_by
        live = whet.build(given, log=log, fallback="shape").tuned_by.to_json()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with whet.apply_best(log, fallback="shape"):
                applied = whet.build(given).tuned_by.to_json()
        assert live == applied == by | {"log": str(log)} and by["log"] == "whet.db"
    assert by["how"] == "device" and kernel.variants[0].config == chosen.as_dict()
    with pytest.raises(ArgumentError, match=r"package\(fallback='devise'\).*\n.*\"device\""):
        whet.package(product, path, log, fallback="devise")


def test_a_task_without_a_record_is_refused(log, tmp_path):
    other = whet.create_task("matmul", args=(9, 9, 9), target="llvm")
    with pytest.raises(LogError, match=r"matmul\(9, 9, 9\).*\n.*untuned=True"):
        whet.package(other, tmp_path / "k.whet", log)
    with pytest.raises(LogError, match="no log was given"):
        whet.package(other, tmp_path / "k.whet")
    assert not (tmp_path / "k.whet").exists()
    index = whet.package(other, tmp_path / "k.whet", log, untuned=True, levels=["own"])
    assert index.kernels[0].variants[0].tuned_by["why"] == (
        "no record of the log applies: it was never tuned there"
    )


def test_what_is_no_list_of_tasks(product, tmp_path):
    path = tmp_path / "k.whet"
    for wrong, error, message in [
        (
            [product, product],
            ArtifactError,
            r"two tasks are called matmul: .*\n.*a dict names them",
        ),
        ([], ArgumentError, "0 tasks"),
        ({}, ArgumentError, "0 tasks"),
        (7, ArgumentError, "tasks are Tasks, not 7"),
        ("product", ArgumentError, "tasks are Tasks, not 'product'"),
        ([7], ArgumentError, "7 is no Task"),
        ({"a b": product}, ArgumentError, "'a b' is no name of a kernel"),
        ({7: product}, ArgumentError, "7 is no name of a kernel"),
    ]:
        with pytest.raises(error, match=message):
            whet.package(wrong, path, untuned=True)
    assert os.listdir(tmp_path) == []


def test_levels_and_compilers_that_are_not_there(product, tmp_path, monkeypatch):
    def package(levels=(), task=product, **more):
        whet.package(task, tmp_path / "k.whet", untuned=True, levels=levels, **more)

    with pytest.raises(ArtifactError, match=r"no level 'x86-64-v9'\n  levels: own, x86-64-v4"):
        package(["own", "x86-64-v9"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        ArtifactError, match=r"no C compiler 'aarch64-linux-gnu-gcc'.*\n.*gcc-aarch"
    ):
        package(["aarch64"])
    with pytest.raises(ArtifactError, match="no C compiler 'mine -x'"):
        package(["aarch64"], cc={"aarch64": "mine -x"})
    monkeypatch.undo()
    riscv = whet.create_task("matmul", args=(8, 8, 8), target="llvm -mtriple=riscv64-linux-gnu")
    with pytest.raises(ArtifactError, match="Linux on x86_64 and aarch64, not for riscv64"):
        package(task=riscv)
    with pytest.raises(TargetError):
        level_target("test", whet.Target("llvm -mcpu=nothing"), "own").canonical()
    assert LEVELS[0] == "own" and os.listdir(tmp_path) == []


@X86
def test_a_feature_that_nothing_can_ask_for(tmp_path):
    task = whet.create_task("matmul", args=(8, 8, 8), target="llvm -mcpu=x86-64-v2 -mattr=+sse4a")
    with pytest.raises(
        ArtifactError, match="cannot tell whether a CPU has sse4a\n  leave them out"
    ):
        whet.package(task, tmp_path / "k.whet", untuned=True)


@X86
def test_a_task_is_not_made_for_newer_processors_unless_asked(tmp_path):
    task = whet.create_task("matmul", args=(8, 8, 8), target="llvm -mcpu=x86-64-v2")
    index = whet.package(task, tmp_path / "k.whet", untuned=True)
    assert [one.level for one in index.libraries] == ["x86-64-v2"]
    index = whet.package(task, tmp_path / "k.whet", untuned=True, levels=["own", "x86-64-v3"])
    assert [one.level for one in index.libraries] == ["x86-64-v3", "x86-64-v2"]


def test_places_where_no_file_can_be(product, tmp_path):
    with pytest.raises(ArtifactError, match="there is no folder"):
        whet.package(product, tmp_path / "no" / "k.whet", untuned=True)
    with pytest.raises(ArtifactError, match="it is a folder"):
        whet.package(product, tmp_path, untuned=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(FILE)
    return tmp_path


def command(capsys, *words):
    code = main(["package", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_command_writes_and_shows(folder, log, capsys):
    words = ("kernels.py:named", "--log", log, "-o", "k.whet", "--level", "own")
    code, said = command(capsys, *words)
    assert code == 1 and "LogError: package matmul(8, 8, 8)" in said and "--untuned" in said
    code, said = command(capsys, *words, "--untuned")
    assert code == 0 and "k.whet: 2 kernels for " in said
    assert (
        "second for " in said and ": default config, no record of the log applies: it was " in said
    )
    assert "first for" not in said  # it was tuned
    assert list(whet.load("k.whet")) == ["first", "second"]
    code, said = command(capsys, "--show", "k.whet")
    assert code == 0 and "\nfirst: matmul(24, 40, 56)\n" in said
    assert ": tuned (trial 1: 2 us on cpu-" in said and ": default config, no record" in said
    assert "first(A: float32[24, 40], B: float32[40, 56], out C: float32[24, 56])" in said
    assert "tile=[" in said and "runs" in said


def test_the_command_takes_tasks_in_several_forms(folder, capsys):
    for place, kernels in [
        (["kernels.py:product"], "1 kernel for"),
        (["kernels.py:made"], "1 kernel for"),
        (["kernels:product"], "1 kernel for"),
    ]:
        code, said = command(capsys, *place, "-o", "k.whet", "--untuned", "--level", "own")
        assert code == 0 and kernels in said, said
    for words, message in [
        (["kernels.py:alike", "-o", "a"], "two tasks are called matmul"),
        (["kernels.py:product", "kernels.py:other", "-o", "a"], "two tasks are called matmul"),
        (["kernels.py:product", "kernels.py:named", "-o", "a"], "it stands alone"),
        (["kernels.py:nothing", "-o", "a"], "kernels.py has no 'nothing'"),
        (["kernels.py:bad", "-o", "a"], "7 is no Task"),
        (["kernels.py", "-o", "a"], "is not FILE_OR_MODULE:TASKS"),
        (["nowhere.py:tasks", "-o", "a"], "there is no file nowhere.py"),
        (["kernels.py:product"], "give FILE_OR_MODULE:TASKS, or MODEL.onnx, and -o FILE"),
        (["-o", "a"], "give FILE_OR_MODULE:TASKS, or MODEL.onnx, and -o FILE"),
        (["--show", "k.whet", "-o", "a"], "--show FILE stands alone"),
        (["kernels.py:product", "-o", "a", "--cc", "gcc"], "write --cc aarch64="),
        (["kernels.py:product", "-o", "a", "--level", "x86-64-v7"], "knows no level"),
        (["--show", "kernels.py"], "it is no package"),
    ]:
        code, said = command(capsys, *words, *(["--untuned"] if "--show" not in words else []))
        assert code in (1, 2) and message in said, said
    assert not os.path.exists("a")


def test_what_is_shown_obeys_nobody(folder, capsys, product):
    whet.package(product, "k.whet", untuned=True, levels=["own"])
    index, blobs = index_and_blobs((folder / "k.whet").read_bytes())
    index["kernels"][0]["workload"] = "\x1b[2Jcleared"
    index["kernels"][0]["variants"][0]["tuned_by"] = {"how": 7, "why": "\x07"}
    (folder / "k.whet").write_bytes(sealed(index, blobs))
    code, said = command(capsys, "--show", "k.whet")
    assert code == 0 and "?[2Jcleared" in said and "\x1b" not in said and "\x07" not in said


def test_showing_loads_nothing(folder, capsys, monkeypatch):
    whet.package(tasks(), "k.whet", untuned=True, levels=["own"])
    import whet.compiler.runtime.package.load as loading

    monkeypatch.setattr(loading, "library_module", None)
    assert command(capsys, "--show", "k.whet")[0] == 0
    monkeypatch.undo()
    check_numbers(whet.load(folder / "k.whet"))
