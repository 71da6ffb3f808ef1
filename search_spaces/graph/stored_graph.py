"""Compute graphs as plain data, so that a log alone can show a derived task's program.

Operations stand producers first. An expression is a list of its nodes, children before parents, so
that what a computation shares is written once and depth does not matter. What is read back is
checked: a record is data, and its graph must have the identity that the record says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import SpaceError, WhetError
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.search_spaces.graph.identity import identity_of

# Calls that compute a value of their arguments and nothing else; code elsewhere is never named.
_CALLS = frozenset(
    (
        *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh"),
        *("atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "fabs", "pow"),
        *("fmod", "atan2", "hypot", "copysign", "ldexp", "nextafter", "isnan", "isinf", "isfinite"),
        *("if_then_else", "likely", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
        *("shift_left", "shift_right", "popcount", "clz", "fma", "reinterpret"),
        *("q_multiply_shift",),
    )
)
_PLAIN = (
    *(e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max),
    *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or, e.Not, e.Select),
)
_KINDS = {kind.__name__: kind for kind in _PLAIN}
_MOST = 200_000  # nodes of a graph that is kept or read


class Unstorable(Exception):
    """Something in a graph that plain data does not say: an extern statement, a packed call."""


def stored(outputs: Sequence[Tensor], args: Sequence[Tensor]) -> dict[str, Any] | None:
    """A graph as JSON-able data; None if something in it cannot be said so.

    Args:
        outputs: what is computed.
        args: what the kernel takes.
    """
    ops = post_order([t.op for t in (*outputs, *args)])
    place = {op: k for k, op in enumerate(ops)}
    try:
        return {
            "ops": [_operation(op, place) for op in ops],
            "outputs": [[place[t.op], t.value_index] for t in outputs],
            "args": [[place[t.op], t.value_index] for t in args],
        }
    except Unstorable:
        return None


def loaded(data: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs and arguments that :func:`stored` described.

    Raises:
        SpaceError: the data says something else.
    """
    try:
        ops: list[Operation] = []
        for one in data["ops"]:
            ops.append(_Reader(ops).operation(one))
        outputs, args = ([ops[k].output(v) for k, v in data[name]] for name in ("outputs", "args"))
        identity_of(outputs, args)  # it walks all of it: every variable must be an axis, or bound
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, WhetError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise SpaceError(
            "a stored compute graph",
            f"it is damaged: {type(error).__name__}: {first}",
            "name the task in the code that makes it",
        ) from error
    return outputs, args


def _operation(op: Operation, place: dict[Operation, int]) -> dict[str, Any]:
    if isinstance(op, PlaceholderOp):
        data = {"input": op.name, "dtype": op.dtype, "shape": [int(d) for d in op.shape]}
        return data | ({"range": list(op.value_range)} if op.value_range else {})
    if not isinstance(op, ComputeOp):
        raise Unstorable
    writer = _Writer(place)
    axes = {
        name: [writer.axis(a) for a in axes]
        for name, axes in (("axis", op.axis), ("reduce", op.reduce_axis))
    }
    body = [writer.expression(b) for b in op.body]
    return {"compute": op.name, "tag": op.tag, **axes, "nodes": writer.nodes, "body": body}


class _Writer:
    """Writes the expressions of one operation."""

    def __init__(self, place: dict[Operation, int]) -> None:
        self.place = place
        self.nodes: list[list[Any]] = []
        self.at: dict[int, int] = {}  # id(node or reducer or axis) -> its place in nodes
        self.kept: list[Any] = []  # so that an id stays one node's

    def axis(self, a: e.IterVar) -> list[Any]:
        assert a.dom is not None
        return [self.expression(a.var), int(a.dom.min), int(a.dom.extent)]

    def expression(self, root: e.PrimExpr) -> int:
        waiting = [root]
        while waiting:
            n = waiting[-1]
            if id(n) in self.at:
                waiting.pop()
                continue
            missing = [c for c in self._needs(n) if id(c) not in self.at]
            if missing:
                waiting += reversed(missing)
            else:
                waiting.pop()
                self._add(n, self._row(n))
        return self.at[id(root)]

    def _needs(self, n: e.PrimExpr) -> tuple[e.PrimExpr, ...]:
        if type(n) is e.Reduce:
            c = n.combiner
            return (*n.parts, *c.lhs, *c.rhs, *c.result, *c.identity)
        if type(n) is e.Let:
            return (n.var, n.value, n.body)
        return n.parts

    def _add(self, n: Any, row: list[Any]) -> int:
        if len(self.nodes) >= _MOST:
            raise Unstorable
        self.at[id(n)] = len(self.nodes)
        self.kept.append(n)
        self.nodes.append(row)
        return self.at[id(n)]

    def _places(self, many: Sequence[Any]) -> list[int]:
        return [self.at[id(n)] for n in many]

    def _row(self, n: e.PrimExpr) -> list[Any]:
        kind = type(n)
        if kind in _ROWS:
            word, write = _ROWS[kind]
            return [word, n.dtype, *write(self, n)]
        if kind in _PLAIN:
            return [kind.__name__, n.dtype, *self._places(n.parts)]
        raise Unstorable

    def _read(self, n: e.ProducerLoad) -> list[Any]:
        return [[self.place[n.producer.op], n.producer.value_index], self._places(n.indices)]

    def _call(self, n: e.Call) -> list[Any]:
        if n.op not in _CALLS:
            raise Unstorable
        return [str(n.op), self._places(n.args)]

    def _reduce(self, n: e.Reduce) -> list[Any]:
        c = n.combiner
        combine = self.at.get(id(c))
        if combine is None:
            parts = [self._places(p) for p in (c.lhs, c.rhs, c.result, c.identity)]
            combine = self._add(c, ["Combine", c.name, *parts])
        axes = self._places([a.var for a in n.axis])
        more = [self._places(n.source), axes, self.at[id(n.condition)], n.value_index]
        return [combine, *more, self._places(n.init)]


_Write = Callable[[_Writer, Any], list[Any]]
# Type -> the word that a row begins with, and what it holds behind the dtype. _MAKERS reads rows.
_ROWS: dict[type, tuple[str, _Write]] = {
    e.Var: ("Var", lambda w, n: [n.name]),
    e.SizeVar: ("Var", lambda w, n: [n.name]),
    e.IntImm: ("IntImm", lambda w, n: [int(n.value)]),
    e.FloatImm: ("FloatImm", lambda w, n: [float(n.value).hex()]),  # infinities and NaN, too
    e.Cast: ("Cast", lambda w, n: w._places([n.value])),
    e.ProducerLoad: ("Read", _Writer._read),
    e.Call: ("Call", _Writer._call),
    e.Let: ("Let", lambda w, n: w._places((n.var, n.value, n.body))),
    e.Reduce: ("Reduce", _Writer._reduce),
}


class _Reader:
    """Makes the operation that :class:`_Writer` wrote; whatever does not fit raises."""

    def __init__(self, ops: list[Operation]) -> None:
        self.ops = ops
        self.made: list[Any] = []
        self.axes: dict[int, e.IterVar] = {}

    def operation(self, data: dict[str, Any]) -> Operation:
        if "input" in data:
            shape = tuple(e.IntImm("int32", _int(d, least=0)) for d in data["shape"])
            span = data.get("range")
            limits = None if span is None else (float(span[0]), float(span[1]))
            return PlaceholderOp(_str(data["input"]), shape, dt.check(data["dtype"]), "", limits)
        rows = data["nodes"]
        if len(rows) > _MOST:
            raise ValueError(f"{len(rows)} nodes")
        own = {"axis": e.DATA_PAR, "reduce": e.COMM_REDUCE}
        wanted = {_int(row[0]): (row, kind) for name, kind in own.items() for row in data[name]}
        for k, row in enumerate(rows):
            self.made.append(self._node(row))
            if k in wanted:
                self.axes[k] = self._axis(*wanted[k])
        axis, reduce_axis = (tuple(self.axes[row[0]] for row in data[name]) for name in own)
        body = tuple(self._expr(k) for k in data["body"])
        if not body:
            raise ValueError("a computation without a body")
        return ComputeOp(_str(data["compute"]), axis, reduce_axis, body, _str(data["tag"]))

    def _axis(self, row: list[Any], kind: int) -> e.IterVar:
        var = self._var(row[0])
        least, extent = _int(row[1]), _int(row[2], least=0)
        bounds = (e.IntImm(var.dtype, least), e.IntImm(var.dtype, extent))
        return e.IterVar(e.Range.from_min_extent(*bounds), var, kind)

    def _expr(self, k: Any) -> e.PrimExpr:
        found = self.made[_int(k, least=0)]
        if not isinstance(found, e.PrimExpr):
            raise TypeError(f"node {k} is no expression")
        return found

    def _exprs(self, many: Any) -> tuple[e.PrimExpr, ...]:
        return tuple(self._expr(k) for k in many)

    def _var(self, k: Any) -> e.Var:
        found = self._expr(k)
        if not isinstance(found, e.Var):
            raise TypeError(f"node {k} is no variable")
        return found

    def _node(self, row: list[Any]) -> Any:
        kind, rest = row[0], row[1:]
        if kind == "Combine":
            name, *parts = rest
            lhs, rhs, result, identity = (self._exprs(p) for p in parts)
            both = (*lhs, *rhs)
            if not all(isinstance(v, e.Var) for v in both) or len(lhs) != len(result):
                raise TypeError("a reducer's arguments are no variables")
            return e.CommReducer(lhs, rhs, result, identity, _str(name))  # type: ignore[arg-type]
        dtype, *rest = rest
        return _MAKERS.get(kind, _Reader._plain)(self, kind, dt.check(dtype), rest)

    def _plain(self, kind: str, dtype: str, rest: list[Any]) -> e.PrimExpr:
        node = _KINDS[kind]
        parts = self._exprs(rest)
        arity = 1 if node is e.Not else 3 if node is e.Select else 2
        if len(parts) != arity:
            raise ValueError(f"{kind} of {len(parts)}")
        make: Any = node
        return make(*parts, dtype)

    def _read(self, kind: str, dtype: str, rest: list[Any]) -> e.PrimExpr:
        (op, value), indices = rest
        tensor = self.ops[_int(op, least=0)].output(_int(value, least=0))
        if len(indices) != len(tensor.shape) or tensor.dtype != dtype:
            raise ValueError("a read does not fit its tensor")
        return e.ProducerLoad(tensor, self._exprs(indices), dtype)

    def _call(self, kind: str, dtype: str, rest: list[Any]) -> e.PrimExpr:
        name, args = rest
        if name not in _CALLS:
            raise ValueError(f"a call of {name!r}")
        return e.Call(dtype, name, self._exprs(args))

    def _reduce(self, kind: str, dtype: str, rest: list[Any]) -> e.PrimExpr:
        combiner, source, axes, condition, value_index, init = rest
        reducer = self.made[_int(combiner, least=0)]
        if not isinstance(reducer, e.CommReducer):
            raise TypeError("a reduction without a reducer")
        over = tuple(self.axes[_int(k)] for k in axes)
        parts = self._exprs(source), over, self._expr(condition), _int(value_index, least=0)
        return e.Reduce(reducer, *parts, dtype, self._exprs(init))


_MAKERS: dict[str, Callable[[_Reader, str, str, list[Any]], e.PrimExpr]] = {
    "Var": lambda r, kind, dtype, rest: e.Var(_str(rest[0]), dtype),
    "IntImm": lambda r, kind, dtype, rest: e.IntImm(dtype, _int(rest[0])),
    "FloatImm": lambda r, kind, dtype, rest: e.FloatImm(dtype, float.fromhex(rest[0])),
    "Cast": lambda r, kind, dtype, rest: e.Cast(dtype, r._expr(rest[0])),
    "Let": lambda r, kind, dtype, rest: e.Let(
        r._var(rest[0]), r._expr(rest[1]), r._expr(rest[2]), dtype
    ),
    "Read": _Reader._read,
    "Call": _Reader._call,
    "Reduce": _Reader._reduce,
}


def _int(value: Any, least: int = -(2**63)) -> int:
    if type(value) is not int or not least <= value < 2**63:
        raise ValueError(f"{value!r} is no such integer")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
