"""AutoInline: which stages it puts into their readers, and that the numbers stay."""

import numpy as np
import pytest

from whet.compiler import te
from whet.compiler.driver import build
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.relations import INLINE


def example():
    """A chain of each kind of stage, ending in an output that is element-wise itself."""
    A = te.placeholder((5, 7), name="A")
    r = te.placeholder((7,), name="r")
    k = te.reduce_axis((0, 7), "k")
    stages = [
        elementwise := te.compute((5, 7), lambda i, j: A[i, j] * 2.0, name="elementwise"),
        scheduled := te.compute((5, 7), lambda i, j: elementwise[i, j] + 1.0, name="scheduled"),
        broadcast := te.compute((5, 7), lambda i, j: scheduled[i, j] + r[j], name="broadcast"),
        constant := te.compute((5, 7), lambda i, j: te.const(3.0), name="constant"),
        turned := te.compute(
            (7, 5), lambda i, j: broadcast[j, i] + constant[j, i], name="transposed"
        ),
        twice := te.compute((7, 5), lambda i, j: turned[i, j] + turned[6 - i, j], name="affine"),
        diagonal := te.compute((5, 5), lambda i, j: twice[i, i] + twice[j, i], name="diagonal"),
        total := te.compute((7,), lambda i: te.sum(broadcast[0, k] * r[i], axis=k), name="total"),
        te.compute((5, 5), lambda i, j: diagonal[i, j] + total[i], name="out"),
    ]
    return A, r, stages[-1], stages


def expected(a, r):
    broadcast = a * 2 + 1 + r
    turned = broadcast.T + 3
    twice = turned + turned[::-1]
    square = twice[:5].T
    diagonal = np.diag(square)[:, None] + square
    return diagonal + (broadcast[0].sum() * r)[:5, None]


@pytest.mark.parametrize(
    ("inline", "inlined"),
    [
        (te.schedule.AutoInlineElemWise, {"elementwise", "constant"}),
        (te.schedule.AutoInlineBroadcast, {"elementwise", "constant", "broadcast"}),
        (
            te.schedule.AutoInlineInjective,
            {"elementwise", "constant", "broadcast", "transposed", "affine", "diagonal"},
        ),
    ],
)
def test_stages_of_a_kind_are_inlined(inline, inlined):
    A, r, out, stages = example()
    s = te.create_schedule(out.op)
    scheduled = stages[1]
    s[scheduled].split(scheduled.op.axis[1], 4)  # what was scheduled by hand stays
    inline(s)
    assert {x.op.name for x in s.stages if x.attach_type == INLINE} == inlined
    rng = np.random.default_rng()
    a, b = rng.random((5, 7), "float32"), rng.random(7, "float32")
    got = np.full((5, 5), np.nan, "float32")
    build(s, [A, r, out])(a, b, got)
    np.testing.assert_allclose(got, expected(a, b), rtol=1e-5)


def test_only_schedules_are_taken():
    with pytest.raises(ArgumentError, match=r"AutoInlineInjective\(3\): a int is not a schedule"):
        te.schedule.AutoInlineInjective(3)
