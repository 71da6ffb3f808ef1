"""`check_schedule`: the arguments that it draws for a schedule, and what it takes for equal."""

import numpy as np
import pytest
from device_programs import SM_80, bound

from whet import te
from whet.compiler.emulator.sanitizer import sanitize
from whet.compiler.emulator.sanitizer.expectations import compare


def drawn(make, *placeholders):
    result = make(*placeholders)
    s = te.create_schedule(result.op)
    ops = [stage.op for stage in s.stages]
    return sanitize.values_for([*placeholders, result], {}, 0, ops)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "uint8", "int32"])
def test_a_schedule_of_each_dtype(dtype):
    A = te.placeholder((100,), dtype, name="A")
    B = te.compute((100,), lambda i: A[i] * A[99 - i], name="B")
    s = te.create_schedule(B.op)
    bound(s, B)
    assert sanitize.check_schedule(s, [A, B], SM_80, orders=1).compared == 1


def test_integers_are_negative_too_unless_they_are_indices():
    A, I = te.placeholder((64,), "int32", name="A"), te.placeholder((64,), "int32", name="I")
    a, _, _ = drawn(lambda A, I: te.compute((64,), lambda i: A[i] + I[i]), A, I)
    assert a.min() == -8 and a.max() == 7
    for read in (lambda k: A[I[k]], lambda k: A[k] << I[k]):
        a, i, _ = drawn(lambda *_, read=read: te.compute((64,), read), A, I)
        assert min(a.min(), i.min()) == 0
    U = te.placeholder((64,), "uint8", name="U")
    assert drawn(lambda U: te.compute((64,), lambda i: U[i]), U)[0].max() == 7


def test_values_are_drawn_from_a_range_that_was_said():
    A = te.placeholder((500,), "int32", name="A", value_range=(3, 5))
    F = te.placeholder((500,), name="F", value_range=(2, 4))
    a, f, _ = drawn(lambda A, F: te.compute((500,), lambda i: A[i] * F[i]), A, F)
    assert set(a) == {3, 4, 5} and 2 <= f.min() < 2.1 and 3.9 < f.max() <= 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
def test_small_elements_are_compared_as_well(dtype):
    from whet.compiler.abi.layout import numpy_dtype

    wanted = np.full(101, 1e-3)
    wanted[0] = 1e3  # one large element does not excuse the small ones
    wanted = wanted.astype(numpy_dtype(dtype))
    found = wanted.copy()
    assert compare(found, wanted, scaled=True)[0] == 0
    found[5] = 2e-3
    assert compare(found, wanted, scaled=True)[1].startswith("[5] is ")
    found[5] = np.nan
    assert compare(found, wanted, scaled=True)[1].startswith("[5] is ")
    wanted[5] = np.nan
    assert compare(found, wanted, scaled=True)[0] == 0
