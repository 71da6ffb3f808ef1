"""An oracle for te computations: the expressions evaluated with numpy, whatever the schedule.

It shares no code with the compiler but the node classes: axes become aranges, reads fancy
indexing, reductions numpy's. Floats are computed in float64 whatever their type.
"""

import math

import numpy as np

from whet.compiler import te
from whet.compiler.tir import expr as e

_BINARY = {
    e.Add: np.add,
    e.Sub: np.subtract,
    e.Mul: np.multiply,
    e.FloorDiv: np.floor_divide,
    e.FloorMod: np.mod,
    e.Mod: np.fmod,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.EQ: np.equal,
    e.NE: np.not_equal,
    e.LT: np.less,
    e.LE: np.less_equal,
    e.GT: np.greater,
    e.GE: np.greater_equal,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}
_CALLS = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "pow": np.power,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
_REDUCE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def _wide(dtype):
    return "float64" if "float" in dtype else dtype


def evaluate(tensors, values, symbols=None):
    """The values of ``tensors``.

    Args:
        tensors: what is asked for.
        values: placeholder -> numpy array, scalar variable -> number; operation of a hybrid script
            -> tensors of te.compute that have its values.
        symbols: symbolic size -> number.
    """
    known = {
        k: v.astype("float64") if "float" in str(getattr(v, "dtype", "")) else v
        for k, v in {**dict(values), **dict(symbols or {})}.items()
    }
    return [evaluate_tensor(t, known) for t in tensors]


def evaluate_tensor(t, known):
    """The value of a tensor, which becomes known, too."""
    if t in known:
        return known[t]
    if isinstance(t.op, te.ScanOp):
        return _recurrence(t, known)
    if isinstance(t.op, te.HybridOp):
        known[t] = evaluate_tensor(known[t.op][t.value_index], known)
        return known[t]
    assert isinstance(t.op, te.ComputeOp), t
    op = t.op
    body = op.body[t.value_index]
    axes = [*op.axis, *op.reduce_axis]
    env, sizes, steps = ranges(axes, known)
    if isinstance(body, e.Reduce):
        env[RAGGED] = steps
    data = sizes[: len(op.axis)]
    with np.errstate(all="ignore"):
        if isinstance(body, e.Reduce) and body.combiner.name not in _REDUCE:
            out = _fold(op, body.value_index, env, sizes, data)
        elif isinstance(body, e.Reduce):
            out = _reduce(body, env, sizes, data)
        else:
            out = np.broadcast_to(evaluate_expr(body, env), data)
    known[t] = np.array(out, dtype=_wide(body.dtype))
    return known[t]


RAGGED = "the steps that a reduction has at each element"


def ranges(axes, known):
    """The values of axes, each along a dimension of its own, their sizes, and the steps there are.

    Where the range of one depends on others before it, it is that of all elements.
    """
    env, sizes, steps = dict(known), [], np.True_
    for k, a in enumerate(axes):
        low = np.asarray(_number(a.dom.min, env))
        end = low + _number(a.dom.extent, env)
        begin = int(low.min(initial=2**31 if low.ndim else int(low)))
        size = max(int(end.max(initial=begin)) - begin, 0) if end.ndim else int(end) - begin
        size = 0 if low.size == 0 else size
        index = np.arange(begin, begin + size).reshape([-1] + [1] * (len(axes) - k - 1))
        if end.ndim:
            steps = steps & (index >= low) & (index < end)
        env[a.var] = index
        sizes.append(size)
    return env, sizes, steps


def steps_of(op, known):
    """The first step of a recurrence that its update gives, and the number of all."""
    begin = int(_number(op.scan_axis.dom.min, known))
    return begin, begin + int(_number(op.scan_axis.dom.extent, known))


def _recurrence(t, known):
    """The states of a recurrence, step by step."""
    op = t.op
    begin, end = steps_of(op, known)
    for first, state in zip(op.init, op.state_placeholder):
        shape = [int(_number(d, known)) for d in state.shape]
        known[state] = np.zeros(shape, _wide(state.dtype))
        known[state][:begin] = evaluate_tensor(first, known)
    for step in range(begin, end):
        local = {k: v for k, v in known.items() if getattr(k, "op", None) not in _inside(op)}
        rows = [evaluate_tensor(u, local)[step] for u in op.update]
        for state, row in zip(op.state_placeholder, rows):
            known[state][step] = row
    for k, state in enumerate(op.state_placeholder):
        known[op.output(k)] = known[state]
    return known[t]


def _inside(op):
    """What a recurrence computes at each step."""
    return set(te.schedule.ScanGetBody(op))


def _reduce(body, env, sizes, data):
    function, dtype = _REDUCE[body.combiner.name], _wide(body.dtype)
    source = np.broadcast_to(evaluate_expr(body.source[0], env), sizes).astype(dtype)
    where = np.broadcast_to(evaluate_expr(body.condition, env) & env[RAGGED], sizes)
    over = tuple(range(len(data), len(sizes)))
    if body.init:
        first = evaluate_expr(body.init[0], env)
        begin = np.broadcast_to(first.reshape(np.shape(first)[: len(data)]), data)
    else:
        begin = np.full(data, _identity(body.combiner.name, dtype), dtype)
    if 0 in sizes[len(data) :]:
        return begin
    identity = _identity(body.combiner.name, dtype)
    total = function.reduce(np.where(where, source, identity).astype(dtype), axis=over, dtype=dtype)
    return function(begin, total)


def _fold(op, index, env, sizes, data):
    """Output ``index`` of a reduction of several values at once, by its combiner, step by step."""
    first = op.body[0]
    combiner, count = first.combiner, len(first.source)
    sources = [np.broadcast_to(evaluate_expr(x, env), sizes) for x in first.source]
    where = np.broadcast_to(evaluate_expr(first.condition, env) & env[RAGGED], sizes)
    begin = first.init or combiner.identity
    state = [np.broadcast_to(evaluate_expr(x, env), data).copy() for x in begin]
    rank = len(data)
    for step in np.ndindex(*sizes[rank:]):
        at = (slice(None),) * rank + step
        local = {
            **dict(zip(combiner.lhs, state)),
            **{v: x[at] for v, x in zip(combiner.rhs, sources)},
        }
        new = [evaluate_expr(combiner.result[k], local) for k in range(count)]
        state = [np.where(where[at], x, old) for x, old in zip(new, state)]
    return state[index]


def _identity(name, dtype):
    if name == "sum":
        return np.zeros((), dtype)[()]
    if np.dtype(dtype).kind == "f":
        return np.array(-math.inf if name == "max" else math.inf, dtype)[()]
    info = np.iinfo(dtype)
    return np.array(info.min if name == "max" else info.max, dtype)[()]


def _number(n, known):
    return evaluate_expr(n, known)


def evaluate_expr(n, env):
    """The value of an expression; ``env`` has those of variables, axes and placeholders."""
    kind = type(n)
    if kind in (e.IntImm, e.FloatImm):
        return np.array(n.value, _wide(n.dtype))
    if isinstance(n, e.Var):
        return np.asarray(env[n])
    if kind in _BINARY:
        return _BINARY[kind](evaluate_expr(n.a, env), evaluate_expr(n.b, env))
    if kind is e.Div:
        a, b = evaluate_expr(n.a, env), evaluate_expr(n.b, env)
        if "float" in n.dtype:
            return a / b
        return ((a - np.fmod(a, b)) // b).astype(_wide(n.dtype))  # exact: no rounding is left
    if kind is e.Not:
        return np.logical_not(evaluate_expr(n.a, env))
    if kind is e.Cast:
        return evaluate_expr(n.value, env).astype(_wide(n.dtype))
    if kind is e.Select:
        return np.where(
            *(evaluate_expr(x, env) for x in (n.condition, n.true_value, n.false_value))
        )
    if kind is e.Call and n.op == "if_then_else":
        return np.where(*(evaluate_expr(x, env) for x in n.args))
    if kind is e.Call:
        return _CALLS[n.op](*(evaluate_expr(x, env) for x in n.args)).astype(_wide(n.dtype))
    if kind is e.ProducerLoad:
        array = evaluate_tensor(n.producer, {k: v for k, v in env.items() if not _is_axis(k, v)})
        env.setdefault(n.producer, array)
        if array.size == 0:
            return np.zeros(
                np.broadcast_shapes(*(np.shape(evaluate_expr(i, env)) for i in n.indices)),
                array.dtype,
            )
        # what an if_then_else leaves out may be out of range
        places = [np.clip(evaluate_expr(i, env), 0, s - 1) for i, s in zip(n.indices, array.shape)]
        return array[tuple(places)]
    raise NotImplementedError(kind)


def _is_axis(key, value):
    return isinstance(key, e.Var) and np.ndim(value) > 0
