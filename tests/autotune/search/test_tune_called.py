"""How tune() is called: callbacks, words of other tuners, files that are loaded for their tasks."""

from __future__ import annotations

import numpy as np
import pytest
from autotune_pools import Recorder

import whet
from whet.autotune import create_task, tune
from whet.cli import main
from whet.compiler.errors import ArgumentError
from whet.db import TuningLog


@pytest.fixture
def task():
    return create_task("matmul", (8, 9, 10), "llvm -mcpu=x86-64-v2 -num_threads=1")


def pool():
    return Recorder(lambda inp: 1e-6)


def test_callbacks_hear_of_each_new_trial_when_it_is_in_the_log(task, tmp_path):
    path, heard = tmp_path / "a.db", []

    def heard_of(searched, trial):
        with TuningLog(path, write=False) as log:
            heard.append((searched is task, trial.number, len(log)))
        return True

    tune(task, 4, path, "random", pool(), progress=False, callbacks=[heard_of])
    assert [number for _, number, _ in heard] == [0, 1, 2, 3]
    assert all(same and number < held for same, number, held in heard)
    heard.clear()
    tune(task, 6, path, "random", pool(), progress=False, callbacks=[heard_of])
    assert [number for _, number, _ in heard] == [4, 5]


def test_what_a_callback_raises_ends_the_search(task, tmp_path):
    def enough(searched, trial):
        if trial.number == 2:
            raise StopIteration("enough")

    path = tmp_path / "a.db"
    with pytest.raises(StopIteration, match="enough"):
        tune(task, 50, path, "random", pool(), progress=False, callbacks=[enough])
    with TuningLog(path) as log:
        assert 3 <= len(log) < 50
        assert [run.state for run in log.runs()] == ["failed"]


def test_numpys_integers_are_integers(task, tmp_path):
    path = tmp_path / "a.db"
    tune(task, np.int64(3), path, "random", pool(), seed=np.uint8(4), progress=False)
    with TuningLog(path) as log:
        assert log.runs()[0].seed == 4
    with pytest.raises(ArgumentError, match="an integer of at least 1"):
        tune(task, np.float64(3))


@pytest.mark.parametrize("callbacks", [print, [1], "print", None])
def test_callbacks_are_a_list_of_functions(task, callbacks):
    with pytest.raises(ArgumentError, match=r"callbacks are a list of functions of \(task, trial"):
        tune(task, 1, callbacks=callbacks)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("n_trials", "trials"), ("n_trial", "trials"), ("n_jobs", "workers"), ("trails", "trials"),
     ("tuner", "sampler"), ("time_out", "timeout"), ("log_file", "log")],
)  # fmt: skip
def test_words_of_other_tuners_get_a_hint(task, word, meant):
    with pytest.raises(ArgumentError, match=rf"no argument '{word}'; did you mean {meant}=\?"):
        tune(task, **{word: 3})
    with pytest.raises(TypeError, match="arguments: task, trials, log"):
        tune(task, wholly_else=3)


def test_a_log_has_a_length_and_gives_its_trials(task, tmp_path):
    with TuningLog(tmp_path / "a.db") as log:
        assert len(log) == 0 and log and list(log) == []
        tune(task, 3, log, "random", pool(), progress=False)
        assert len(log) == len(log.trials()) == len(list(log)) >= 3
        assert {type(trial).__name__ for trial in log} == {"TrialRecord"}


SCRIPT = """
import whet
from whet import te


@whet.template("loaded/{name}")
def kernel(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    whet.get_config().define_split("tile", s[B].op.axis[0], num_outputs=2)
    whet.get_config()["tile"].apply(s, B, s[B].op.axis[0])
    return s, [A, B]


task = whet.create_task("loaded/{name}", (16,), "llvm")
try:
    whet.tune(task, trials=100000, log="forbidden.db")
except Exception:
    print("handled")
below = task
"""


def test_a_command_loads_a_script_up_to_its_search(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels_loaded.py").write_text(SCRIPT.format(name=tmp_path.name))
    name = f"loaded/{tmp_path.name}"
    words = ["tune", "kernels_loaded.py:task", "--trials", "2", "--log", "a.db", "--quiet"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "kernels_loaded.py: loaded up to line 18, which begins a search" in said.err
    assert 'if __name__ == "__main__":' in said.err and "handled" not in said.out
    assert not (tmp_path / "forbidden.db").exists()
    assert main(["show", "a.db", "--op", name, "--module", "kernels_loaded.py"]) == 0
    assert "for i_inner in range(" in capsys.readouterr().out
    assert main(["tune", "kernels_loaded.py:below", "--trials", "2"]) == 2  # stands below it
    assert whet.list_templates().count(name) == 1
