"""A log that an earlier version wrote is read and built from as it was then."""

import json
import platform
import shutil

import log_before
import pytest

import whet

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the texts are those of an x86-64 host"
)


@pytest.fixture(scope="module")
def found():
    return json.loads(log_before.FOUND.read_text())


@pytest.fixture
def log(tmp_path):
    copy = shutil.copy(log_before.LOG, tmp_path)
    whet.TuningLog(copy).close()  # brings it up to this version
    return copy


def test_its_records_are_read(log, found):
    assert log_before.read_from(log) == found["read"]
    assert found["read"]["broken"] == 0


def test_the_same_is_built_from_it(log, found):
    built = log_before.built_from(log)
    assert built.keys() == found["built"].keys() - log_before.HISTORY
    for name, now in built.items():
        assert found["built"][name] == now, name


def test_its_export_is_imported(tmp_path, found):
    with whet.TuningLog(tmp_path / "new.db") as new:
        new.import_json(log_before.LINES)
    assert log_before.read_from(tmp_path / "new.db")["trials"] == found["read"]["trials"]
    built = log_before.built_from(tmp_path / "new.db")
    assert built == {n: b for n, b in found["built"].items() if n not in log_before.HISTORY}


def test_a_search_goes_on_from_it(log):
    """A task that has its trials is tuned no further; nothing is measured."""
    task = log_before.tasks()["user"]
    with whet.TuningLog(log) as opened:
        device = next(r.device for r in opened.runs() if r.workload == task.workload)
    result = whet.tune(task, 9, log, "random", seed=7, device=device, progress=False)
    assert len(result.trials) == 9
