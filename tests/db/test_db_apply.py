"""apply_best: which records a template runs under, and what is said about those that do not."""

import itertools
import sqlite3
import warnings

import pytest
from db_records import failed, ok

from whet.autotune import apply_best
from whet.compiler.errors import LogError
from whet.compiler.target import Target
from whet.db import IgnoredRecordsWarning, TuningLog, UntunedWarning, device_key
from whet.db.kin import kin_of
from whet.db.values.identity import target_difference
from whet.measure.device.names import this_device
from whet.search_spaces import Config, get_config, space_of, template

serial = itertools.count()


@pytest.fixture
def scale():
    """A template that returns its choices for a schedule."""

    def scale(n, dtype="float32"):
        cfg = get_config()
        cfg.define_split("tile", n, num_outputs=2)
        cfg.define_knob("unroll", [False, True])
        return (cfg["tile"].size, cfg["unroll"].val), []

    return template(f"test_db/scale{next(serial)}")(scale)


@pytest.fixture
def log(tmp_path):
    with TuningLog(tmp_path / "whet.db") as log:
        yield log


LLVM = Target("llvm")


def record(log, workload, tile, cost, *, target=LLVM, device=None, space=None, unroll=True):
    space = space or space_of(workload)
    config = space.from_choices({"tile": tile, "unroll": unroll})
    run = log.start_run(workload, target, device or this_device(), space.fingerprint)
    log.add_trial(run, 0, config, ok(cost), flop=1e9)


def run(scale, *args, **given):
    """The schedule under the log, and the text of the one warning, or ""."""
    log = given.pop("log")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with apply_best(log, **given), given.get("target", LLVM):
            schedule, _ = scale(*args)
    assert len(caught) <= 1 and all(w.category is UntunedWarning for w in caught)
    assert all(w.filename == __file__ for w in caught)
    return schedule, str(caught[0].message) if caught else ""


def test_the_best_record_is_in_force_inside_and_only_there(scale, log):
    workload = scale.workload(64)
    record(log, workload, (8, 8), 2.0)
    record(log, workload, (4, 16), 1.0)
    default = scale(64)[0]
    assert default != ((4, 16), True)
    for given in (log, log.location):
        assert run(scale, 64, log=given) == (((4, 16), True), "")
    assert scale(64)[0] == default
    assert len(log.trials()) == 2  # the caller's log is still open


def test_without_a_target_in_force_it_is_llvm(scale, log):
    record(log, scale.workload(64), (4, 16), 1.0)
    with apply_best(log):
        assert scale(64)[0] == ((4, 16), True)


def test_an_untuned_workload_gets_its_default_and_one_warning(scale, log):
    record(log, scale.workload(16), (4, 4), 0.5)
    record(log, scale.workload(4096), (64, 64), 0.5)
    default = scale(64)[0]
    with pytest.warns(UntunedWarning) as caught, apply_best(log), LLVM:
        assert scale(64)[0] == default == scale(64)[0]
        assert scale(4096)[0] == ((64, 64), True)
        scale(128)
    assert len(caught) == 1
    said = str(caught[0].message)
    assert "2 workloads have no record that applies; default configs were used" in said
    name = scale.name
    assert f"{name}(64): it was never tuned there; tune it: as the next line says; " in said
    assert f"the log holds: {name}(16), {name}(4096)" in said
    assert f"whet.create_task('{name}', args=(128, 'float32'), target='llvm')" in said
    assert said.count(f"{name}(64)") == 1 and f"log={log.location!r}" in said


def test_another_machines_records_are_named_and_taken_only_when_asked(scale, log):
    other = {"cpu": "Big CPU", "fingerprint": "cpu-big"}
    record(log, scale.workload(64), (4, 16), 1.0, device=other)
    default = scale(64)[0]
    schedule, said = run(scale, 64, log=log)
    assert schedule == default
    assert "on other machines only (Big CPU (cpu-big); this is " in said and "whet.tune(" in said
    assert "or accept their records: device='cpu-big'" in said
    for device in ("cpu-big", other):
        assert run(scale, 64, log=log, device=device) == (((4, 16), True), "")
    said = r"nothing of that machine\n  machines in it: Big CPU"
    with pytest.raises(LogError, match=said), apply_best(log, device="cpu-small"):
        pass


def test_targets_differ_in_what_one_has_and_the_other_has_not():
    one, other = {"mattr": "+avx,+fma", "num_threads": 1}, {"mattr": "+fma,+sse2", "num_threads": 2}
    said = "mattr with +avx and without +sse2, num_threads=1 instead of 2"
    assert target_difference(one, other) == said
    assert target_difference({"mattr": "+avx,+fma"}, {"mattr": ""}) == "mattr with +avx +fma"
    assert target_difference({"mattr": ""}, {"mattr": "+avx,+fma"}) == "mattr without +avx +fma"
    narrow, wide = {"mcpu": "v2", "mattr": "+sse3"}, {"mcpu": "v4", "mattr": "+avx512f"}
    assert target_difference(wide, narrow) == "mcpu=v4 instead of v2"


def test_another_target_another_space_and_failures_are_told_apart(scale, log):
    workload = scale.workload(64)
    here = LLVM.canonical().to_json()
    record(log, workload, (4, 16), 1.0, target=here | {"num_threads": 999})
    said = run(scale, 64, log=log)[1]
    assert f"for other targets only (num_threads=999 instead of {here['num_threads']})" in said
    old = log.start_run(workload, LLVM, this_device(), "0ldspace0")
    log.add_trial(old, 0, Config((("gone", 1),), "0ldspace0"), ok(1.0))
    said = run(scale, 64, log=log)[1]
    assert "another version of its space" in said and "records of 0ldspace" in said
    space = space_of(workload)
    mine = log.start_run(workload, LLVM, this_device(), space.fingerprint)
    log.add_trial(mine, 0, space.default, failed())
    assert "none of its 1 trials worked" in run(scale, 64, log=log)[1]


def test_an_altered_record_is_an_error(scale, log):
    workload = scale.workload(64)
    space = space_of(workload)
    run_id = log.start_run(workload, LLVM, this_device(), space.fingerprint)
    forged = Config((("tile", (5, 7)), ("unroll", True)), space.fingerprint)
    log.add_trial(run_id, 0, forged, ok(1.0))
    with pytest.raises(LogError, match=r"trial 0 of run 1 is not in the space"), apply_best(log):
        scale(64)


def test_no_log(tmp_path):
    with pytest.raises(LogError, match="there is no such file"), apply_best(tmp_path / "no.db"):
        pass
    assert not (tmp_path / "no.db").exists()


def test_an_error_inside_is_not_hidden_by_the_warning(scale, log):
    with pytest.warns(UntunedWarning), pytest.raises(ZeroDivisionError), apply_best(log):
        scale(64)
        raise ZeroDivisionError


def test_a_device_is_its_fingerprint_whatever_else_is_known_of_it():
    assert device_key({"fingerprint": "cpu-1", "load": 1}) == device_key("cpu-1") == "cpu-1"
    assert device_key({"a": 1, "b": 2}) == device_key({"b": 2, "a": 1}) != device_key({"a": 1})


def test_records_that_stand_in_on_every_database(scale, location):
    """The fallbacks ask what no other reader does: the tasks of a workload, and of a template."""
    ours, near = scale.workload(64), scale.workload(128)
    with TuningLog(location) as log:
        record(log, ours, (4, 16), 1.0, device={"cpu": "Big CPU", "fingerprint": "cpu-big"})
        record(log, near, (2, 64), 1.0)
        record(log, scale.workload(32, "float64"), (2, 16), 1.0)
    with TuningLog(location, write=False) as log:
        kin = log.read_records("x", lambda r: kin_of(r, LLVM, template=scale.name))
        assert [(k.workload, device_key(k.device)) for k in kin] == [
            (ours, "cpu-big"),
            (near, this_device()),
            (scale.workload(32, "float64"), this_device()),
        ]
        assert (kin[0].succeeded, kin[0].fingerprint) == (1, space_of(ours).fingerprint)
        assert log.read_records("x", lambda r: kin_of(r, LLVM, ours)) == kin[:1]
        assert log.read_records("x", lambda r: kin_of(r, "llvm -num_threads=77")) == []
    schedule, said = run(scale, 64, log=location, fallback="device")
    assert schedule == ((4, 16), True) and "1 config worked there" in said


def test_broken_tasks_stand_in_for_nothing(scale, log):
    workload = scale.workload(64)
    for k, device in enumerate(("cpu-a", "cpu-b", "cpu-c")):
        record(log, workload, (4, 16), 1.0 + k, device=device)
    log.close()
    with sqlite3.connect(log.location) as raw:
        raw.execute("UPDATE device SET data = 'cpu-a' WHERE data = '\"cpu-a\"'")
        raw.execute("UPDATE device SET data = '7' WHERE data = '\"cpu-b\"'")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with apply_best(log, fallback="device") as applied, LLVM:
            assert applied.choose(workload).tuned_by.device == "cpu-c"
    assert any(w.category is IgnoredRecordsWarning for w in caught)
