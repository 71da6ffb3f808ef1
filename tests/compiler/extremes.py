"""Inputs of any value that a type has, and arrays that begin anywhere."""

import numpy as np
from guarded import guarded

FLOATS = (np.inf, -np.inf, np.nan, -0.0, 0.0, 1.0, -1.0)
LINE = 64


def extreme(rng, values):
    """Some elements of an array become extreme ones: infinities, NaN, -0.0, the largest integers.

    Sometimes a few, so that there is something beside what they spoil, sometimes most.
    """
    if values.dtype.kind == "b":
        return values
    if values.dtype.kind in "iu":
        info = np.iinfo(values.dtype)
        some = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1], values.dtype)
    else:
        some = np.array(FLOATS).astype(values.dtype)
    share = rng.choice((0.02, 0.2, 0.7))
    return np.where(rng.random(values.shape) < share, rng.choice(some, values.shape), values)


class Placed:
    """A copy of an array that begins at any multiple of its item, and what lies around it.

    With a ``wall`` (``"end"`` or ``"begin"``) a touch behind the last element, or before the first
    one, is a segfault: not in a process that has to say which program did it. Where strides are
    free, its elements are apart, backwards, or its axes swapped.

    Attributes:
        array: the copy.
    """

    def __init__(self, rng, array, strides=False, wall=None):
        steps, order = [1] * array.ndim, list(range(array.ndim))
        if strides:
            steps = [int(rng.choice((1, 2, 3, -1, -2))) for _ in array.shape]
            order = list(rng.permutation(array.ndim))
        shape = [array.shape[k] * abs(steps[k]) for k in order]
        self.memory, self.whole = _memory(rng, shape, array.dtype, wall)
        back = [order.index(k) for k in range(array.ndim)]
        self.array = self.whole.transpose(back)[tuple(slice(None, None, s) for s in steps)]
        self.array[...] = array
        self.given = array.copy()
        self.before = self.memory.copy()

    def check_surroundings(self):
        """Nothing around the array was written; what the array holds stays as it is."""
        result = self.array.copy()
        self.array[...] = self.given
        unchanged = self.memory.tobytes() == self.before.tobytes()
        self.array[...] = result
        assert unchanged, "memory around an argument was written"


def _memory(rng, shape, dtype, wall):
    """Memory, and an array of a shape in it."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if nbytes and wall:
        walled = guarded(np.full(shape, 1, dtype), at_end=wall == "end")
        return walled, walled
    memory = np.full(nbytes + 2 * LINE, 0x5A, "uint8")
    items = int(rng.integers(0, LINE // dtype.itemsize))
    first = -memory.ctypes.data % LINE + items * dtype.itemsize
    return memory, memory[first : first + nbytes].view(dtype).reshape(shape)
