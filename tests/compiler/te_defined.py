"""The elements of a te computation that every schedule computes alike, for inputs of any value.

Not defined, and so not compared:

- the greatest or least of floats with a NaN among them (docs/cpu_kernels.md: it depends on the
  place and on the config), and any reduction of several values that compares a NaN;
- a float that is converted to an integer type which does not hold it;
- sums, products and conversions of floats that the type does not hold exactly: they depend on the
  order of the loops.

What reads an undefined element is undefined, too. The rest is equal to the last bit, infinities and
NaN at the same places; zeros have either sign. Integers wrap around, and are always defined.
"""

import numpy as np
from te_oracle import evaluate_expr, evaluate_tensor, ranges, steps_of

from whet.compiler import te
from whet.compiler.tir import expr as e

#: integers below these are exact, and so are their sums
EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}


def undefined(tensors, values, symbols=None):
    """A mask for each of ``tensors``, true where an element is undefined.

    Args:
        tensors: what is asked for.
        values: placeholder -> numpy array, scalar variable -> number.
        symbols: symbolic size -> number.
    """
    known = Masks({**values, **(symbols or {})})
    return [known.of(t) for t in tensors]


class Masks:
    """The masks of the tensors of one computation; ``known`` are values."""

    def __init__(self, known):
        self.known = {
            k: v.astype("float64") if "float" in str(getattr(v, "dtype", "")) else v
            for k, v in known.items()
        }
        self.made = {}

    def of(self, tensor):
        """The mask of a tensor: true where it is undefined."""
        if tensor not in self.made:
            if isinstance(tensor.op, te.ScanOp):
                self._recurrence(tensor.op)
                return self.made[tensor]
            if isinstance(tensor.op, te.HybridOp):
                self.made[tensor] = self.of(self.known[tensor.op][tensor.value_index])
                return self.made[tensor]
            for t in tensor.op.input_tensors:  # their values first, so that none is computed twice
                self.of(t)
            shape = np.shape(evaluate_tensor(tensor, self.known))
            computed = isinstance(tensor.op, te.ComputeOp)
            self.made[tensor] = self._computed(tensor) if computed else np.zeros(shape, bool)
        return self.made[tensor]

    def _recurrence(self, op):
        evaluate_tensor(op.output(0), self.known)
        begin, end = steps_of(op, self.known)
        for first, state in zip(op.init, op.state_placeholder):
            self.made[state] = np.zeros(self.known[state].shape, bool)
            self.made[state][:begin] = self.of(first)
        inside = set(te.schedule.ScanGetBody(op))
        for step in range(begin, end):
            local = Masks(self.known)
            local.made = {t: m for t, m in self.made.items() if t.op not in inside}
            rows = [local.of(u)[step] for u in op.update]
            for state, row in zip(op.state_placeholder, rows):
                self.made[state][step] = row
        for k, state in enumerate(op.state_placeholder):
            self.made[op.output(k)] = self.made[state]

    def _computed(self, tensor):
        op, body = tensor.op, tensor.op.body[tensor.value_index]
        axes = [*op.axis, *op.reduce_axis]
        env, sizes, steps = ranges(axes, self.known)
        with np.errstate(all="ignore"):
            if isinstance(body, e.Reduce):
                return self._reduced(body, env, sizes, len(op.axis), steps)
            return np.broadcast_to(self._expr(body, env), sizes).copy()

    def _reduced(self, body, env, sizes, rank, steps):
        over = tuple(range(rank, len(sizes)))
        where = np.broadcast_to(evaluate_expr(body.condition, env) & steps, sizes)
        out = np.broadcast_to(self._expr(body.condition, env), sizes).any(over)
        for source in body.source:
            unknown = np.broadcast_to(self._expr(source, env), sizes)
            out = out | (unknown & where).any(over)
            if "float" not in source.dtype:
                continue
            value = np.where(where, np.broadcast_to(evaluate_expr(source, env), sizes), 0.0)
            if body.combiner.name == "sum":
                finite = np.where(np.isfinite(value), np.abs(value), 0.0)
                out = out | (finite.sum(over) + 8 >= EXACT[source.dtype])
            else:
                out = out | np.isnan(value).any(over)
        return out

    def _expr(self, n, env):
        kind = type(n)
        if isinstance(n, (e.IntImm, e.FloatImm, e.Var)):
            return np.False_
        if kind is e.ProducerLoad:
            return self._read(n, env)
        if kind is e.Select or (kind is e.Call and n.op == "if_then_else"):
            condition, *ways = (
                n.args if kind is e.Call else (n.condition, n.true_value, n.false_value)
            )
            chosen = np.where(evaluate_expr(condition, env), *(self._expr(x, env) for x in ways))
            return self._expr(condition, env) | chosen
        if kind is e.Call:  # of integers
            assert n.op in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
            return self._expr(n.args[0], env) | self._expr(n.args[1], env)
        if kind is e.Not:
            return self._expr(n.a, env)
        if kind is e.Cast:
            return self._expr(n.value, env) | self._cast(n, env)
        out = self._expr(n.a, env) | self._expr(n.b, env)
        if "float" not in n.a.dtype:
            return out
        if kind in (e.Min, e.Max):
            return out | np.isnan(evaluate_expr(n.a, env)) | np.isnan(evaluate_expr(n.b, env))
        if "float" not in n.dtype:  # a comparison: with NaN it is false
            return out
        return out | _inexact(evaluate_expr(n, env), n.dtype)

    def _read(self, n, env):
        mask = self.of(n.producer)
        indices = [evaluate_expr(i, env) for i in n.indices]
        unknown = np.False_
        for i in n.indices:
            unknown = unknown | self._expr(i, env)
        if mask.size == 0:
            return np.zeros(np.broadcast_shapes(*map(np.shape, indices)), bool)
        # what an if_then_else leaves out may be out of range
        return unknown | mask[tuple(np.clip(i, 0, s - 1) for i, s in zip(indices, mask.shape))]

    def _cast(self, n, env):
        value = np.asarray(evaluate_expr(n.value, env))
        if "float" in n.dtype:
            return _inexact(value, n.dtype)
        if "float" not in n.value.dtype or n.dtype == "bool":
            return np.False_
        info = np.iinfo(n.dtype)
        return ~((value >= info.min) & (value <= info.max) & (np.abs(value) < 2.0**53))


def _inexact(value, dtype):
    """Finite, and beyond the integers of the type: rounded, or perhaps infinite."""
    value = np.asarray(value, "float64")
    return np.isfinite(value) & (np.abs(value) >= EXACT[dtype])
