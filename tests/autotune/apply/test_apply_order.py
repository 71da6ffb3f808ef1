"""Which record apply_best takes: exact, another device's, a near shape's, or none at all."""

import shlex

import numpy as np
import pytest
from apply_logs import COLUMNS, ROWS, record, said, scale, scale_task, tiled

import whet
from whet import te
from whet.autotune.results.recorded import read_recorded
from whet.compiler import topi
from whet.compiler.errors import ArgumentError, LogError
from whet.db import TuningLog
from whet.measure import MeasureOptions
from whet.measure.device.names import this_device
from whet.measure.values import MeasureResult
from whet.search_spaces import Config

QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=3, min_repeat_ms=1.0, max_measure_s=0.05
)
BIG = {"cpu": "Big CPU", "fingerprint": "cpu-big"}
SMALL = {"cpu": "Small CPU", "fingerprint": "cpu-small"}


@pytest.fixture
def log(tmp_path):
    with TuningLog(tmp_path / "whet.db") as log:
        yield log


def built(task, *logs, **given):
    """What a task's kernel is tuned by, its config, and the text of the warning."""
    with said() as texts, whet.apply_best(*logs, **given) as applied:
        kernel = whet.build(task)
        with task.target:
            config = applied.resolve(task.workload)
    n, m = task.args
    a = np.random.default_rng(0).standard_normal((n, m)).astype("float32")
    b = np.full((n, m), np.nan, "float32")
    kernel(a, b)
    np.testing.assert_array_equal(b, 2 * a)
    return kernel.tuned_by, config, texts[0] if texts else ""


def test_a_search_is_found_by_build_and_by_the_template(tmp_path):
    task, path = scale_task(), tmp_path / "a.db"
    found = whet.tune(task, 5, path, "random", 1, progress=False, options=QUICK)
    by, config, text = built(task, path)
    assert config == found.best.config and text == ""
    assert (by.how, by.workload, by.device) == ("exact", str(task.workload), this_device())
    assert by.log == str(path) and by.cost > 0 and whet.Target(by.target) == task.target
    with TuningLog(path, write=False) as log:
        best = log.best(task.workload, task.target)
        assert by.trial == (best.run_id, best.number) and by.cost == best.cost
    with whet.apply_best(path), task.target:
        schedule, args = scale(64, 64)
        assert schedule.tuned_by == by == schedule.copy().tuned_by
        assert whet.build(schedule, args).tuned_by == by
    assert str(whet.lower(schedule, args)) == str(whet.lower(*task.instantiate(config)))
    assert whet.build(task, log=path).tuned_by == by
    assert whet.build(task).tuned_by is None  # nobody asked a log


def test_what_a_search_measured_after_anothers_finalists_is_chosen_by_all(log):
    task = scale_task()
    names = (task.workload, task.target, this_device(), task.config_space.fingerprint)

    def measured(run, number, config, cost, when):
        log.add_trial(run, number, config, MeasureResult("ok", (cost,), timestamp=when))

    killed = record(log, task, task.config_space.default, 4e-6)
    finals = log.start_run(*names, "finalists")
    measured(finals, 0, task.config_space.default, 4e-6, 10.0)
    measured(finals, 1, tiled(task, 4), 3e-6, 11.0)
    log.finish_run(finals)
    assert built(task, log)[1] == tiled(task, 4)
    measured(killed, 5, tiled(task, 16), 2e-6, 20.0)
    by, config, text = built(task, log)
    assert (config, by.trial, text) == (tiled(task, 16), (killed, 5), "")
    assert whet.build(task, log=log.location).tuned_by.trial == (killed, 5)
    recorded = read_recorded(log, task.workload, task.target, names[3])  # as `whet best` does
    assert recorded.best.config == tiled(task, 16) and not recorded.compared


def test_its_own_record_comes_before_a_cheaper_one_of_another_device(log):
    task = scale_task()
    record(log, task, tiled(task, 4), 2e-6)
    record(log, task, tiled(task, 16), 1e-6, device=BIG)
    for fallback in ("none", "device", "shape"):
        by, config, text = built(task, log, fallback=fallback)
        assert (by.how, config, text) == ("exact", tiled(task, 4), "")


def test_another_devices_record_only_where_the_fallback_goes_that_far(log):
    task = scale_task()
    record(log, task, tiled(task, 16), 1e-6, device=BIG)
    by, config, text = built(task, log)
    assert by.how == "default" and by.cost is by.trial is None and config is None
    assert "on other machines only (Big CPU (cpu-big); this is " in by.why and by.why in text
    for fallback in ("device", "shape"):
        by, config, text = built(task, log, fallback=fallback)
        assert (by.how, by.device, by.cost) == ("device", "cpu-big", 1e-6)
        assert config == tiled(task, 16) and by.workload == str(task.workload)
        assert f"no record of {this_device()}; Big CPU (cpu-big) tuned it" in by.why
        assert "1 workload took another device's or shape's config" in text and by.why in text
        assert text.splitlines()[2].strip().startswith("whet tune ")


def test_of_several_devices_the_one_that_tried_most(log):
    """Costs of two devices say nothing of each other: the cheaper one does not win."""
    task = scale_task()
    record(log, task, [tiled(task, 16)], 1e-9, device=BIG)
    record(log, task, [tiled(task, 4), tiled(task, 32)], 3e-6, 2e-6, device=SMALL)
    by, config, _ = built(task, log, fallback="device")
    assert (by.device, config) == ("cpu-small", tiled(task, 32))
    assert "2 configs worked there" in by.why


def test_a_device_that_is_named_comes_first_and_this_one_may_stand_in(log):
    task = scale_task()
    record(log, task, tiled(task, 16), 1e-6, device=BIG)
    record(log, task, tiled(task, 4), 2e-6)
    assert built(task, log, device="cpu-big")[0].how == "exact"
    other = scale_task(32)
    record(log, other, tiled(other, 2), 1e-6)
    by, config, _ = built(other, log, device="cpu-big", fallback="device")
    assert (by.how, by.device, config) == ("device", this_device(), tiled(other, 2))
    with pytest.raises(LogError, match="nothing of that machine"):
        built(task, log, device="cpu-bigg", fallback="shape")


def test_other_targets_versions_and_failures_never_stand_in(log):
    task = scale_task()
    wide = scale_task(target="llvm -num_threads=2 -mcpu=x86-64-v3")
    record(log, wide, tiled(wide, 16), 1e-6, device=BIG)
    old = Config(tiled(task, 16).choices, "0ldspace0", tiled(task, 16).kinds)
    record(log, task, old, 1e-6, device=BIG)
    run = log.start_run(task.workload, task.target, SMALL, task.config_space.fingerprint)
    log.add_trial(run, 0, tiled(task, 4), whet.measure.MeasureResult("run_crash", error="SIGSEGV"))
    assert built(task, log, fallback="shape")[0].how == "default"


def test_a_models_word_stands_in_for_no_measurement(log):
    task = scale_task()
    record(log, task, tiled(task, 16), 1e-6, device="cuda-emulator-a100-v2")
    near = scale_task(32)
    assert built(task, log, fallback="shape")[0].how == "default"
    assert built(near, log, fallback="shape")[0].how == "default"


def test_the_nearest_shape_that_is_estimated_to_be_no_slower(log):
    near, far, task = scale_task(128), scale_task(1024), scale_task(64)
    record(log, far, tiled(far, 4), 9e-6)
    record(log, near, tiled(near, 16), 5e-6)
    assert built(task, log, fallback="device")[0].how == "default"
    by, config, text = built(task, log, fallback="shape")
    assert (by.how, by.workload, by.cost) == ("shape", str(near.workload), 5e-6)
    assert config == tiled(task, 16) and config.fingerprint == task.config_space.fingerprint
    assert "0.989 doublings away; estimated " in by.why and "the default config " in by.why
    assert "whet tune " in text
    own = record(log, task, tiled(task, 8), 9e-6)
    by, config, _ = built(task, log, fallback="shape")
    assert (by.how, by.trial) == ("exact", (own, 0))


def test_choices_that_another_shape_lacks_become_those_most_alike(log):
    near, task = scale_task(64, 64), scale_task(64, 24)
    record(log, near, tiled(near, 16), 5e-6)
    by, config, _ = built(task, log, fallback="shape")
    assert by.how == "shape" and "fitted to this shape" in by.why
    assert config in task.config_space and config["tile"].size[-1] in (8, 12, 24)


def test_a_config_that_is_estimated_to_be_slower_is_refused(log):
    near, task = scale_task(128), scale_task(64)
    record(log, near, tiled(near, 16, **COLUMNS), 1e-9)  # however fast it was there
    by, config, text = built(task, log, fallback="shape")
    assert (by.how, config) == ("default", None)
    assert "the config of test/apply_scale(128, 64) is estimated to be slower (" in by.why
    assert by.why in text
    further = scale_task(512)
    record(log, further, tiled(further, 16, **ROWS), 1e-6)
    by, config, _ = built(task, log, fallback="shape")  # the next one is
    assert (by.how, by.workload) == ("shape", "test/apply_scale(512, 64)")


def test_a_config_that_is_not_valid_here_is_refused(log):
    near, task = scale_task(64), scale_task(48)
    record(log, near, tiled(near, 16, careful=False), 1e-6)
    by, config, _ = built(task, log, fallback="shape")
    assert (by.how, config) == ("default", None)
    assert "cannot be used (" in by.why and "48 rows are too many" in by.why


def test_a_near_shape_of_another_version_of_the_template_is_refused(log):
    near, task = scale_task(128), scale_task(64)
    forged = Config((("gone", 1), *tiled(near, 16).choices), "0ldspace0")
    record(log, near, forged, 1e-6)
    by, config, _ = built(task, log, fallback="shape")
    assert (by.how, config) == ("default", None)
    assert "does not fit (a config of another shape: its knobs are gone, tile" in by.why


def test_a_near_shape_with_choices_that_no_template_made_is_refused(log):
    near, task = scale_task(128), scale_task(64)
    forged = Config((("tile", "x" * 9), ("order", 7), ("careful", None)), "f0rged")
    record(log, near, forged, 1e-6)
    by, _, _ = built(task, log, fallback="shape")
    assert by.how in ("default", "shape")  # refused, or fitted; never an error


def test_another_dtype_or_structure_is_no_near_shape(log):
    a = whet.create_task("matmul", args=(32, 32, 32), target="llvm")
    b = whet.create_task("matmul", args=(32, 32, 40, False, False, "float64"), target="llvm")
    record(log, a, a.config_space.default, 1e-6)
    with said() as texts, whet.apply_best(log, fallback="shape"):
        assert whet.build(b).tuned_by.how == "default"
    assert "float64" in texts[0]


def softmax(n):
    x = te.placeholder((n, 64), name="X")
    return whet.create_task("softmax", outputs=[topi.nn.softmax(x)], target="llvm -num_threads=1")


def test_tasks_without_a_template(log):
    task, near = softmax(32), softmax(48)
    space = near.config_space
    good = next(
        c
        for c in (space.nearest(space[i]) for i in range(0, len(space), max(1, len(space) // 50)))
        if c != space.default
    )
    record(log, near, good, 1e-6)
    with said() as texts, whet.apply_best(log):
        assert whet.build(near).tuned_by.how == "exact"
        by = whet.build(task).tuned_by
    assert by.how == "default" and "graph/softmax/" in str(near.name)
    assert "whet tune FILE.py:TASK --log " in texts[0]
    record(log, near, space.default, 1e-9)
    with said(), whet.apply_best(log, fallback="shape"):
        kernel = whet.build(task)
    assert (kernel.tuned_by.how, kernel.tuned_by.workload) == ("shape", str(near.workload))
    x = np.random.default_rng(0).standard_normal((32, 64)).astype("float32")
    y = np.empty_like(x)
    kernel(x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4)


def test_tasks_for_a_gpu(log, tmp_path):
    target = "cuda -arch=sm_80"
    task = whet.create_task("matmul", args=(128, 128, 128), target=target)
    near = whet.create_task("matmul", args=(256, 128, 128), target=target)
    gpu = {"fingerprint": "cuda-0123456789ab", "name": "NVIDIA A100"}
    record(log, task, task.config_space.default, 1e-6, device=gpu)
    with said(), whet.apply_best(log):  # this machine has no such GPU
        assert whet.build(task).tuned_by.how == "default"
    with said(), whet.apply_best(log, fallback="device"):
        f = whet.build(task)
        assert (f.tuned_by.how, f.tuned_by.device) == ("device", "cuda-0123456789ab")
        assert whet.build(near).tuned_by.how == "default"
    with said(), whet.apply_best(log, fallback="shape"):
        assert whet.build(near).tuned_by.workload == str(task.workload)
    with whet.apply_best(log, device=gpu):
        assert whet.build(task).tuned_by.how == "exact"
    with said() as texts, whet.apply_best(log, device="cuda-emulator", fallback="shape"):
        assert whet.build(near).tuned_by.how == "default"  # a model takes models' records only
    words = shlex.split(texts[0].splitlines()[2])
    assert words[-4:] == ["--device", "cuda-emulator", "--log", log.location]
    target = whet.Target(words[words.index("--target") + 1])
    assert target.canonical() == near.target


@pytest.mark.parametrize(
    "fallback, hint",
    [
        ("shapes", "did you mean 'shape'?"),
        ("devices", "did you mean 'device'?"),
        ("None", "did you mean 'none'?"),
        ("", ""),
        ("exact", ""),
        (None, ""),
        (True, ""),
        (["shape"], ""),
        ("shape\x00", "did you mean 'shape'?"),
    ],
)
def test_hostile_fallbacks(tmp_path, fallback, hint):
    with pytest.raises(ArgumentError) as caught:
        whet.apply_best(tmp_path / "never_opened.db", fallback=fallback)
    text = str(caught.value)
    assert f"apply_best(fallback={fallback!r}): there is no such fallback" in text
    assert hint in text and "fallbacks: 'none', 'device', 'shape'; " in text


def test_build_from_a_log_goes_as_far_as_it_is_told(log):
    task, near = scale_task(), scale_task(96)
    record(log, task, tiled(task, 16), 1e-6, device=BIG)
    for wrong in ("none", "device"):
        with pytest.raises(LogError, match="it was never tuned there"):
            whet.build(near, log=log, fallback=wrong)
    with pytest.raises(LogError, match="on other machines only"):
        whet.build(task, log=log)
    assert whet.build(task, log=log, fallback="device").tuned_by.how == "device"
    assert whet.build(near, log=log, fallback="shape").tuned_by.how == "shape"
    assert whet.build(task, log=log, device="cpu-big").tuned_by.how == "exact"
    with pytest.raises(ArgumentError, match=r"build\(fallback='far'\): there is no such fallback"):
        whet.build(task, log=log, fallback="far")
    for given in ({}, {"inputs": task}):
        with pytest.raises(ArgumentError, match="a fallback chooses among the records of a log"):
            whet.build(given.get("inputs", whet.lower(*task.instantiate())), fallback="shape")
