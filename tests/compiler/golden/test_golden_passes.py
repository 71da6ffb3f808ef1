"""Golden text of a function before and after each pass."""

import pytest

from whet.compiler import driver, te
from whet.compiler.instrument import PassInstrument
from whet.compiler.passes import PASSES, PassContext
from whet.compiler.target import Target

TARGET = Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")


class Watch(PassInstrument):
    """Keeps the text on both sides of every pass that runs."""

    def __init__(self):
        self.seen = []

    def run_before_pass(self, mod, info):
        self.before = str(mod)

    def run_after_pass(self, mod, info):
        self.seen.append((info.name.removeprefix("tir."), self.before, str(mod)))


def padded_row_sums():
    """Tails, a guard, a reduction, an attached stage, vectors: something for every pass."""
    a = te.placeholder((10, 21), name="A")
    p = te.compute(
        (10, 23),
        lambda i, j: te.if_then_else(te.all(j >= 1, j < 22), a[i, j - 1], 0.0),
        name="P",
    )
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((10, 21), lambda i, j: te.sum(p[i, j + k], axis=k), name="C")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], factor=4)
    jo, ji = s[c].split(c.op.axis[1], factor=8)
    s[c].reorder(io, jo, k, ii, ji)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[p].compute_at(s[c], io)
    return s, [a, c]


def watched():
    watch = Watch()
    with TARGET, PassContext(instruments=[watch]):
        driver.lower(*padded_row_sums())
    return watch.seen


def test_the_passes_that_run_are_the_list():
    assert [name for name, _, _ in watched()] == [p.name for p in PASSES]


# the others have something to do only where a function holds it or configuration asks
ALWAYS = [k for k, p in enumerate(PASSES) if p.when is None]


@pytest.mark.parametrize("k", range(len(ALWAYS)), ids=lambda k: f"{k + 1}_{PASSES[ALWAYS[k]].name}")
def test_before_and_after(k, golden):
    name, before, after = watched()[ALWAYS[k]]
    same = "(the same)" if before == after else after
    golden(f"pass_{k + 1}_{name}", f"# before {name}\n{before}\n\n# after {name}\n{same}")


def test_passes_that_are_left_out():
    with TARGET:
        whole = str(driver.lower(*padded_row_sums()))
        simple = str(driver.lower(*padded_row_sums(), simple_mode=True))
        with PassContext(disabled_pass=["LoopPartition"]):
            unpartitioned = str(driver.lower(*padded_row_sums()))
        with PassContext(config={"tir.disable_vectorize": True}):
            scalar = str(driver.lower(*padded_row_sums()))
    assert simple == unpartitioned and len(simple) < len(whole)
    assert "ramp" in whole and "ramp" not in scalar


@pytest.mark.parametrize(
    "left_out", ["LoopPartition", "Simplify", "RegisterAccumulators", "RemoveNoOp"]
)
def test_every_optional_pass_may_be_left_out_and_numbers_stay(left_out):
    from te_check import check

    with PassContext(disabled_pass=[left_out]):
        check(*padded_row_sums())


def test_numbers_without_vectors():
    from te_check import check

    with PassContext(config={"tir.disable_vectorize": True}):
        check(*padded_row_sums())
