"""AutoTVM's tuners, measure options and callbacks as fronts of whet.tune."""

import dataclasses

import pytest

import whet
from whet import autotvm, te


@whet.template("tests/autotvm_tuner")
def scaled(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg.define_knob("vectorize", [False, True])
    cfg.multi_filter(lambda c: c["tile"].size[1] <= 64 or not c["vectorize"].val)
    _, inner = cfg["tile"].apply(s, B, B.op.axis[0])
    if cfg["vectorize"].val:
        s[B].vectorize(inner)
    return s, [A, B]


@pytest.fixture
def task():
    return autotvm.task.create("tests/autotvm_tuner", args=(4096,), target="llvm")


QUICK = autotvm.measure_option(
    autotvm.LocalBuilder(timeout=30, n_parallel=1),
    autotvm.LocalRunner(timeout=30, number=2, repeat=1, min_repeat_ms=0),
)


def test_a_tuner_tunes_into_the_log_that_its_callback_names(task, tmp_path):
    tuner = autotvm.tuner.RandomTuner(task, seed=3)
    assert tuner.result is None
    log = str(tmp_path / "a.db")
    result = tuner.tune(4, QUICK, callbacks=[autotvm.callback.log_to_file(log)])
    assert tuner.result is result
    with whet.TuningLog(log) as opened:
        trials = opened.trials(task.workload)
        runs = opened.runs()
    assert len({t.config.key for t in trials}) == 4
    assert all(t.config in task.config_space for t in trials)
    assert {run.sampler for run in runs} >= {"random"}
    assert next(run for run in runs if run.sampler == "random").seed == 3


class Told(Exception):
    """Ends a search once it is seen how it was asked for."""


@pytest.mark.parametrize(
    ("name", "options", "sampler"),
    [
        ("GridSearchTuner", {}, "grid"),
        ("RandomTuner", {}, "random"),
        ("GATuner", {"pop_size": 50}, "genetic"),
        ("XGBTuner", {"loss_type": "rank", "feature_type": "knob"}, "xgb"),
    ],
)
def test_what_each_tuner_asks_for(task, monkeypatch, name, options, sampler):
    asked = {}

    def tune(*args, **options):
        asked.update(options, task=args[0])
        raise Told

    monkeypatch.setattr("whet.tvm.autotvm.tuner.tune", tune)
    tuner = getattr(autotvm.tuner, name)(task, seed=1, **options)
    runner = dataclasses.replace(QUICK.runner, device="cuda-emulator")
    how = autotvm.measure_option(QUICK.builder, runner)
    with pytest.raises(Told):
        tuner.tune(64, how, early_stopping=20, callbacks=[autotvm.callback.progress_bar(64)])
    assert asked.pop("options") == QUICK.options
    assert asked == {
        "task": task, "trials": 64, "log": "whet.db", "sampler": sampler, "workers": 1, "seed": 1,
        "progress": True, "early_stop": 20, "device": "cuda-emulator",
    }  # fmt: skip


def test_measure_options_are_mapped():
    options = QUICK.options
    assert (options.build_timeout, options.run_timeout) == (30, 30)
    assert (options.number, options.repeat, options.min_repeats) == (2, 1, 1)
    defaults = autotvm.measure_option("local", "local")
    assert defaults.options == whet.MeasureOptions(build_timeout=10.0, run_timeout=10.0)
    assert defaults.workers(None) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        defaults.builder = None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: autotvm.measure_option("rpc"), "a builder and a runner are needed"),
        (lambda t: autotvm.LocalBuilder(build_func="ndk"), "only 'default' can be given"),
        (lambda t: autotvm.LocalRunner(enable_cpu_cache_flush=True), "warm caches"),
        (lambda t: autotvm.LocalRunner(cooldown_interval=1.0), "only 0.0 can be given"),
        (lambda t: autotvm.callback.log_to_file("a", protocol="pickle"), "never a pickle"),
        (lambda t: autotvm.tuner.XGBTuner(t, loss_type="mse"), "loss_type: reg, rank"),
        (lambda t: autotvm.tuner.XGBTuner(t, feature_type="no"), "feature_type: itervar"),
        (lambda t: autotvm.tuner.RandomTuner(t).tune(3, callbacks=["print"]), "is not one of"),
        (lambda t: autotvm.tuner.RandomTuner(t).tune(3, si_prefix="k"), "GFLOP/s"),
        (lambda t: autotvm.tuner.RandomTuner(t).tune(0), "trials=0"),
    ],
)
def test_what_is_refused(task, call, text):
    with pytest.raises(whet.ArgumentError, match=text):
        call(task)
