"""Random expressions over elements of any value, drawn from any source of integers.

What a simplifier likes to rewrite: sums and products with small numbers under comparisons,
divisions of products, extremes of shifted operands, conversions there and back.
"""

import numpy as np

from whet import tir
from whet.compiler import te
from whet.compiler.tir import expr as e

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPARISONS = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)


class Expressions:
    """A stage of several outputs, each a random expression of the elements at one index.

    Attributes:
        inputs: one-dimensional, of three dtypes.
        outputs: the tensors of the stage.
    """

    def __init__(self, pick, size, count=6, depth=4):
        self.pick = pick
        self.dtypes = [self._choose(INTEGERS), *(self._choose(INTEGERS + FLOATS) for _ in "ab")]
        self.inputs = [te.placeholder((size,), d, name=f"I{k}") for k, d in enumerate(self.dtypes)]
        types = [self._choose((*self.dtypes, "bool")) for _ in range(count)]
        made = te.compute((size,), lambda i: tuple(self._of(i, t, depth) for t in types), name="T")
        self.outputs = list(made)

    def _choose(self, things):
        return things[self.pick(0, len(things) - 1)]

    def _of(self, i, dtype, depth):
        self.index = i
        return self.condition(depth) if dtype == "bool" else self.value(dtype, depth)

    def condition(self, depth):
        """A comparison, or several."""
        if depth and self.pick(0, 3) == 0:
            how = self._choose((te.all, te.any, lambda a, b: te.all(a, tir.Not(b))))
            return how(self.condition(depth - 1), self.condition(depth - 1))
        dtype = self._choose(self.dtypes)
        a, b = (self.value(dtype, max(depth - 1, 0)) for _ in "ab")
        return self._choose(COMPARISONS)(a, b, "bool")

    def value(self, dtype, depth):
        """A value of a type."""
        if depth == 0 or self.pick(0, 6) == 0:
            return self._leaf(dtype)
        kind = self.pick(0, 9)
        if kind == 0:
            inner = self.value(self._choose(self.dtypes), depth - 1)
            # a constant that the type does not hold is refused
            constant = isinstance(inner, (e.IntImm, e.FloatImm))
            return self._number(dtype) if constant else inner.astype(dtype)
        if kind == 1:
            choose = self._choose((te.select, te.if_then_else))
            ways = [self.value(dtype, depth - 1) for _ in "ab"]
            return choose(self.condition(depth - 1), *ways)
        a, b = self.value(dtype, depth - 1), self._second(dtype, depth - 1)
        if kind >= 6 and dtype in INTEGERS:
            return self._of_integers(dtype, a, b)
        return self._choose((te_add, te_subtract, te_multiply, te.max, te.min))(a, b)

    def _of_integers(self, dtype, a, b):
        kind = self.pick(0, 3)
        if kind == 0:
            return self._choose((tir.bitwise_and, tir.bitwise_or, tir.bitwise_xor))(a, b)
        if kind == 1:
            by = te.const(self.pick(0, np.dtype(dtype).itemsize * 8 - 1), dtype)
            return self._choose((tir.shift_left, tir.shift_right))(a, by)
        # none divides by 0, nor the smallest number by -1
        least = 1 if dtype.startswith("u") else -9
        by = te.const(self._choose([k for k in range(least, 10) if k not in (-1, 0)]), dtype)
        if self.pick(0, 2) == 0:
            by = te.select(b > 0, b, by)
        how = (te.floordiv, te.floormod, te.truncdiv, te.truncmod)
        return self._choose(how)(a, by)

    def _second(self, dtype, depth):
        return self._number(dtype) if self.pick(0, 1) else self.value(dtype, depth)

    def _number(self, dtype):
        if dtype in INTEGERS and self.pick(0, 4) == 0:
            info = np.iinfo(dtype)
            return te.const(self._choose((info.min, info.max, info.max // 2)), dtype)
        return te.const(self.pick(0 if dtype.startswith("u") else -4, 9), dtype)

    def _leaf(self, dtype):
        if self.pick(0, 3) == 0:
            return self._number(dtype)
        own = [t for t in self.inputs if t.dtype == dtype]
        if own:
            return self._choose(own)[self.index]
        return self._choose(self.inputs)[self.index].astype(dtype)


def te_add(a, b):
    return a + b


def te_subtract(a, b):
    return a - b


def te_multiply(a, b):
    return a * b
