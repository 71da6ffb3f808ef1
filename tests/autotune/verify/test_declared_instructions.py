"""Instructions that a file declares: commands that load it tune and verify, and lose nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import whet
from whet.autotune.verify import UNCHECKED, verify_log
from whet.measure import LocalPool, MeasureInput
from whet.measure.stage.builder import build_candidate
from whet.search_spaces import TemplateRef

FILE = """
import sys
import whet
from whet import te, tir

STEPS = 3


def add(ib, out, a, b, i):
    with ib.for_range(0, STEPS, name="step") as j:
        ib.emit(out.vstore(i, out.vload(i) + a.vload(j) * b.vload((j, i))))


@whet.tensor_intrin("rows")
def add_rows(target):
    x, w = te.placeholder((STEPS,), name="x"), te.placeholder((STEPS, 5), name="w")
    k = te.reduce_axis((0, STEPS), name="k")
    c = te.compute((5,), lambda i: te.sum(x[k] * w[k, i], axis=k), name="c")

    def statements(ins, outs):
        def step(begins, adds):
            ib = tir.ir_builder.create()
            with ib.for_range(0, 5, name="lane") as i:
                if begins:
                    ib.emit(outs[0].vstore(i, tir.const(0, "float32")))
                if adds:
                    add(ib, outs[0], *ins, i)
            return ib.get()

        return step(True, True), step(True, False), step(False, True)

    anywhere = {"offset_factor": 1}
    return te.decl_tensor_intrin(c.op, statements, "rows", default_buffer_params=anywhere)


A, B = te.placeholder((9, 7), name="A"), te.placeholder((7, 11), name="B")
r = te.reduce_axis((0, 7), name="r")
C = te.compute((9, 11), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
t = whet.create_task(outputs=[C], target="llvm -num_threads=1")

if __name__ == "__main__":
    options = whet.MeasureOptions(repeat=3, min_repeat_ms=1.0, max_measure_s=0.05)
    found = whet.tune(t, 6, "k.db", options=options, sampler="random", progress=False)
    print(sorted({(x.config.as_dict()["rule"], x.result.status) for x in found.trials}))
    print(found.best.config.as_dict()["rule"], t.config_space.default.as_dict()["rule"])
"""


@pytest.fixture
def run(tmp_path):
    """Runs Python in a folder with the file; what it printed."""
    (tmp_path / "kernels.py").write_text(FILE)

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


COMMAND = "-c", "import sys; from whet.cli import main; sys.exit(main(sys.argv[1:]))"


def test_verify_and_tune_of_a_file_that_declares_one(run):
    assert "[('gemm', 'ok'), ('tensorize', 'ok')]" in run("kernels.py")
    said = run(*COMMAND, "log", "verify", "k.db", "--module", "kernels.py")
    assert "k.db: 1 holds" in said and "withdrawn" not in said
    said = run(*COMMAND, "tune", "kernels.py:t", "--trials", "2", "--log", "k2.db")
    assert "2 trials, finished" in said and "speed-up" in said
    assert "k2.db: 1 holds" in run(*COMMAND, "log", "verify", "k2.db", "--module", "kernels.py")


@pytest.mark.parametrize("level", ["full", "quick"])
def test_a_wrong_instruction_loses(run, tmp_path, level):
    """The default config uses it, and is no measure of the others' numbers."""
    wrong = FILE.replace("out.vload(i) + ", "out.vload(i) - ").replace(
        "[C], ", f"[C], space={level!r}, "
    )
    assert wrong.count("vload(i) - ") == 1 and level in wrong
    (tmp_path / "kernels.py").write_text(wrong)
    said = run("kernels.py")
    assert "[('gemm', 'ok'), ('tensorize', 'wrong_answer')]" in said
    assert "gemm tensorize" in said
    said = run(*COMMAND, "log", "verify", "k.db", "--module", "kernels.py")
    assert "k.db: 1 holds" in said and "the default config fails" in said


UNOPENED = TemplateRef("tests/sent", 1, "", pickled=b"not a pickle")


def test_a_worker_that_cannot_open_a_template_says_nothing_of_the_config():
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    config = task.config_space.default
    built = build_candidate(MeasureInput(task.workload, task.target.to_json(), config, UNOPENED))
    assert built.status == "infra_error" and "cannot open it" in built.error


def test_nothing_is_withdrawn_where_workers_cannot_open_the_template(tmp_path, monkeypatch):
    task = whet.create_task("matmul", args=(16, 16, 16), target="llvm")
    log = tmp_path / "k.db"
    options = whet.MeasureOptions(repeat=3, min_repeat_ms=1.0, max_measure_s=0.05)
    whet.tune(task, 2, log, options=options, sampler="random", progress=False)
    monkeypatch.setattr(type(task.template), "ref", lambda template: UNOPENED)
    with LocalPool(options=options) as pool:
        (one,) = verify_log(log, workers=pool)
    assert one.outcome == UNCHECKED and "cannot open it" in one.why and not one.withdrawn
