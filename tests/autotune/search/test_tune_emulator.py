"""tune() on the emulator: costs of a model, labelled as such, never among measured ones."""

import numpy as np
import pytest

import whet
from whet import te
from whet.autotune import best_from_log, create_task, tune
from whet.autotune.report import report
from whet.autotune.results.unchecked import unchecked_words
from whet.autotune.search.transfer import read_prior
from whet.compiler.errors import ArgumentError, LogError, TargetError
from whet.db import TuningLog, device_key
from whet.measure import MeasureOptions, MeasureResult, ReplayPool
from whet.search_spaces import get_config, template

SM80, SM90 = "cuda -arch=sm_80", "cuda -arch=sm_90"
QUICK = MeasureOptions(build_timeout=60.0, run_timeout=60.0)


@template("test/gpu_scale")
def scale(n, dtype="float32"):
    """B = 2 A; ``mistake`` reads a neighbour, and 2048 threads are more than there are."""
    A = te.placeholder((n,), dtype, name="A")
    cfg = get_config()
    cfg.define_knob("threads", [64, 256, 2048])
    cfg.define_knob("mistake", [False, True])
    shift = 1 if cfg["mistake"].val else 0
    B = te.compute((n,), lambda i: A[te.min(i + shift, n - 1)] * 2.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], factor=cfg["threads"].val)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [A, B]


def task_of(n=4096, target=SM80):
    return create_task(scale, args=(n,), target=target)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    path = tmp_path_factory.mktemp("emulator") / "a.db"
    return path, tune(
        task_of(), 6, path, "random", 1, device="cuda-emulator", options=QUICK, progress=False
    )


def test_a_search_without_a_gpu(tuned):
    path, result = tuned
    by_config = {str(t.config): t.result for t in result.trials}
    assert len(by_config) == 6
    assert result.outcomes() == {"ok": 2, "pruned": 2, "wrong_answer": 2}
    for text, found in by_config.items():
        if "threads=2048" in text:
            assert found.pruned and "2048" in found.error and not found.failed
        elif "mistake=True" in text:
            assert found.status == "wrong_answer"
        else:
            assert found.environment["checked"] and found.environment["cost"] == "model"
            assert found.environment["model"]["gpu"].startswith("NVIDIA A100")
    said = str(result)
    assert "predicted by a model of NVIDIA A100" in said and "busy" not in said
    assert "failed   2 wrong_answer\n" in said
    assert "pruned   2, refused by a static check, never run: 2 threads\n" in said
    assert "95 %" not in said
    with TuningLog(path, write=False) as log:
        (device,) = log.devices()
        assert device["name"].startswith("cuda-emulator (model of") and device["cost"] == "model"


def test_candidates_that_are_too_large_to_run_are_said_to_be_unchecked(
    tuned, tmp_path, monkeypatch, capsys
):
    """Nothing said that no number of any candidate was compared."""
    assert "checked" not in str(tuned[1]).replace("static check,", "")
    monkeypatch.setattr("whet.measure.gpu.builder.EMULATED", 1.0)
    monkeypatch.setattr("whet.autotune.progress.PLAIN_EVERY", 0.0)
    monkeypatch.setattr("whet.autotune.progress.PLAIN_SHARE", 0.0)
    pruned = task_of(4099)
    found = tune(pruned, 6, tmp_path / "a.db", "random", 1, "cuda-emulator", options=QUICK)
    ok = found.outcomes()["ok"]
    assert ok == 4 and found.outcomes()["pruned"] == 2
    said = f"the numbers of no candidate were checked ({ok} candidates): "
    assert f"{said}too much for the emulator: " in str(found)
    assert "instructions, and 1 are the most" in str(found)
    assert f"{ok} with unchecked numbers" in capsys.readouterr().err
    monkeypatch.undo()
    some = [found.trials[0].result, *(t.result for t in tuned[1].trials)]
    if not some[0].ok:
        some[0] = next(t.result for t in found.trials if t.result.ok)
    assert unchecked_words(some).startswith("the numbers of 1 of 3 candidates were not checked: ")


def test_it_goes_on_where_it_stopped_and_builds(tuned):
    path, result = tuned
    again = tune(task_of(), 6, path, "random", 1, device="cuda-emulator", progress=False)
    assert [t.cost for t in again.trials] == [t.cost for t in result.trials]
    found = best_from_log(task_of(), path, "cuda-emulator")
    assert found.config == result.best.config
    with whet.apply_best(path, device="cuda-emulator"), whet.Target(SM80):
        scheduled, args = scale(4096)
    assert "blockIdx.x" in str(whet.lower(scheduled, args)) and len(args) == 2
    kernel = whet.build(task_of(), log=path, device="cuda-emulator")
    device = whet.device("cuda-emulator")
    a = np.arange(4096, dtype="float32")
    b = whet.nd.array(np.zeros_like(a), device)
    kernel(whet.nd.array(a, device), b)
    np.testing.assert_array_equal(b.numpy(), 2 * a)


def test_nobody_takes_a_models_word_for_a_measurement(tuned):
    path, _ = tuned
    with pytest.raises(LogError, match=r"(?s)other devices only.*model of.*--device cuda-emu"):
        best_from_log(task_of(), path)
    asked = r"(?s)no record of cuda-0123456789ab, which was asked.*tuned on: cuda-emulator"
    with pytest.raises(LogError, match=asked):
        best_from_log(task_of(), path, "cuda-0123456789ab")
    with TuningLog(path, write=False) as log:
        task = task_of()
        assert log.best(task.workload, task.target) is None
        assert log.best(task.workload, task.target, "cuda-emulator") is not None
        program = next(t.result.program_hash for t in log.trials() if t.result.ok)
        device = log.devices()[0]
        assert log.known_program(program, device) is not None
        assert log.known_program(program, "cuda-0123456789ab") is None


def test_transfer_stays_among_its_own(tuned, tmp_path):
    path, _ = tuned
    other = task_of(8192)
    with TuningLog(path, write=False) as log:
        assert read_prior(log, other, "cuda-0123456789ab") is None
        prior = read_prior(log, other, device_key(log.devices()[0]))
        assert len(prior.seeds) >= 1 and np.isfinite(prior.scores).all()
    measured = tmp_path / "measured.db"
    pool = ReplayPool(lambda inp: 1e-3 * (1 + len(str(inp.config))))
    tune(task_of(), 4, measured, "random", pool, device="cuda-0123456789ab", progress=False)
    with TuningLog(measured, write=False) as log:
        assert read_prior(log, other, "cuda-emulator") is None
        assert read_prior(log, other, "cuda-ba9876543210") is not None


def test_several_tasks_share_the_emulator(tmp_path):
    tasks = [task_of(1000), task_of(1001)]
    found = tune(tasks, 2, tmp_path / "a.db", "random", 1, "cuda-emulator", progress=False,
                 options=QUICK)  # fmt: skip
    assert all(r.best is not None and r.predicted for r in found)
    with TuningLog(tmp_path / "a.db", write=False) as log:
        assert report(log).count("s predicted</td>") == len(tasks)


def test_the_report_says_that_nothing_was_measured(tuned):
    path, _ = tuned
    with TuningLog(path, write=False) as log:
        page = report(log)
    assert "predicted by a model of NVIDIA A100" in page
    assert "As a model predicted them." in page
    assert "The last measurement" not in page and "95 %" not in page
    assert "6 trials, 2 failed, 2 pruned" in page
    assert page.index("<h3>Failures</h3>") < page.index("<h3>Pruned</h3>")
    assert "2 candidates refused by a static check, never run: 2 threads." in page


def test_the_command_line_names_the_device(tmp_path, capsys, monkeypatch):
    from whet.cli import main

    monkeypatch.setattr("whet.autotune.session.MeasureOptions", lambda: QUICK)
    log = str(tmp_path / "a.db")
    tuning = ["tune", "--op", "matmul", "--trials", "1", "--log", log, "--quiet"]
    on = ["--device", "cuda-emulator"]
    sizes = ["--args", "32", "32", "32"]
    assert main([*tuning, *sizes, *on]) == 0  # the device says that the target is cuda
    assert "predicted by a model of" in capsys.readouterr().out
    assert main(["best", log]) == 0
    assert " us predicted  " in capsys.readouterr().out
    assert main(["show", log, *on, "--target", "cuda -arch=sm_75"]) == 1
    assert "it was tuned for other targets only" in capsys.readouterr().err
    for what, word in (("loops", "blockIdx.x"), ("cuda", "__global__"), ("config", "trial 0")):
        assert main(["show", log, *on, "--what", what]) == 0
        assert word in capsys.readouterr().out
    assert main(["show", log, "--device", "cuda-emu"]) == 1
    assert "did you mean 'cuda-emulator'" in capsys.readouterr().err
    assert main(["show", log, *on, "--what", "asm"]) == 1
    assert 'formats: "cu", "cuda", "ptx", "sass"' in capsys.readouterr().err
    assert main(["show", log, "--device", "cuda-0123456789ab"]) == 1
    assert "model of NVIDIA A100" in capsys.readouterr().err


def test_a_device_names_no_target_of_a_task_that_has_one(tmp_path, monkeypatch):
    """Options that the device implies were taken for --target, which a Task refuses."""
    from whet.cli import main

    file, found = tmp_path / "kernels.py", []
    file.write_text(
        "from whet.search_spaces import get_template\nfrom whet.autotune import create_task\n"
        f"task = create_task('matmul', (32, 32, 32), {SM90!r})\n"
        "softmax = get_template('softmax')\n"
    )
    monkeypatch.setattr("whet.autotune.tune", lambda task, **_: found.append(task))
    on = ["--device", "cuda-emulator"]
    assert main(["tune", f"{file}:task", *on]) == 0
    assert main(["tune", f"{file}:softmax", "--args", "(8, 8)", *on]) == 0
    assert [str(task.target.kind) for task in found] == ["cuda", "cuda"]


def test_without_a_compiler_the_search_does_not_begin(tmp_path, monkeypatch):
    """It began, and each candidate was recorded as one that does not build."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    task = create_task("matmul", args=(32, 32, 32), target=SM80)
    with pytest.raises(TargetError, match="there is no 'no-such-compiler' on the PATH"):
        tune(task, 2, tmp_path / "a.db", "random", 1, "cuda-emulator", progress=False)
    assert not (tmp_path / "a.db").exists()


def test_a_function_that_has_nothing_to_do(tmp_path):
    task = create_task("matmul", args=(0, 3, 4), target=SM80)
    found = tune(task, 1, tmp_path / "a.db", "random", 1, "cuda-emulator", progress=False,
                 options=QUICK)  # fmt: skip
    assert found.best is not None and found.trials[0].result.environment["checked"]


# --- what it refuses


def test_devices_and_targets_that_do_not_fit(tmp_path, monkeypatch):
    log = tmp_path / "a.db"
    cpu = create_task("matmul", args=(8, 8, 8), target="llvm")
    with pytest.raises(ArgumentError, match=r"'cuda:1'\): it does not run code for target 'llvm'"):
        tune(cpu, 1, log, device="cuda:1")
    with pytest.raises(ArgumentError, match=r"'cpu'\): it does not run code for target 'cuda'"):
        tune(task_of(), 1, log, device=whet.cpu(0))
    with pytest.raises(ArgumentError, match="run on different devices: cuda, llvm"):
        tune([cpu, task_of()], 2, log, device="cuda-emulator")
    with pytest.raises(ArgumentError, match="modelled by different GPUs"):
        tune([task_of(), task_of(target=SM90)], 2, log, device="cuda-emulator")
    with pytest.raises(TargetError, match="no GPU of that architecture is modelled"):
        tune(task_of(target="cuda -arch=sm_61"), 1, log, device="cuda-emulator")
    for wrong in ("cuda:x", "gpu7", "cuda-emu", "cuda-emulator-a100", "cuda-1", whet.opencl(0)):
        with pytest.raises(ArgumentError, match="there is no such device"):
            tune(task_of(), 1, log, device=wrong)
    with pytest.raises(ArgumentError, match="did you mean 'cuda-emulator'"):
        tune(task_of(), 1, log, device="cuda-emu")
    with pytest.raises(ArgumentError, match="chooses among the records of a log"):
        whet.build(task_of(), device="cuda-emulator")
    assert not log.exists()


def test_a_gpu_that_is_not_there(tmp_path):
    from whet.measure.device.identity import first_gpu

    if first_gpu() is not None:
        pytest.skip("this machine has a GPU")
    with pytest.raises(TargetError, match=r"(?s)no GPU.*device='cuda-emulator' checks"):
        tune(task_of(), 1, tmp_path / "a.db")
    with pytest.raises(TargetError):
        tune(task_of(), 1, tmp_path / "a.db", device="cuda:0")


def test_a_space_of_which_everything_is_pruned(tmp_path):
    pool = ReplayPool(lambda inp: MeasureResult("pruned", error="it has no room", stage="build",
                                                  environment={"pruned": "registers"}))  # fmt: skip
    said = r"(?s)all (\d+) candidates were pruned.*no room for them \(\1 registers\)"
    with pytest.raises(whet.WhetError, match=said):
        tune(task_of(), 6, tmp_path / "a.db", "random", pool, progress=False)


def test_pruned_ones_do_not_make_a_search_hopeless(tmp_path):
    from whet.autotune.search import goal
    from whet.autotune.search.early_stop import HOPELESS

    found = goal.Goal(task_of(), 1.0, TuningLog(tmp_path / "a.db"), "cuda-0123456789ab")
    for _ in range(HOPELESS * 2):
        found.count(MeasureResult("pruned", error="no room"))
    assert found.error is None
    for _ in range(HOPELESS):
        found.count(MeasureResult("run_error", error="it broke"))
    assert "100 were pruned" in str(found.error) and "it broke" in str(found.error)
