"""Compute graphs as plain data, so that a log alone can show a derived task's program.

Operations stand producers first. An expression is a list of its nodes, children before parents, so
that what a computation shares is written once and depth does not matter. What is read back is
checked: a record is data, and its graph must have the identity that the record says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import SpaceError, WhetError
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    DATA_PAR,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Range,
    Reduce,
    Select,
    SizeVar,
    Sub,
    Var,
)
from whet.compiler.tir.ops.table import OPERATIONS
from whet.search_spaces.graph.identity import identity_of

# Calls that compute a value of their arguments and nothing else; code elsewhere is never named.
_CALLS = {name for name, row in OPERATIONS.items() if row.is_value}
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

    def axis(self, a: IterVar) -> list[Any]:
        assert a.dom is not None
        return [self.expression(a.var), int(a.dom.min), int(a.dom.extent)]

    def expression(self, root: PrimExpr) -> int:
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

    def _needs(self, n: PrimExpr) -> tuple[PrimExpr, ...]:
        if type(n) is Reduce:
            c = n.combiner
            return (*n.parts, *c.lhs, *c.rhs, *c.result, *c.identity)
        if type(n) is Let:
            return (n.var, n.value, n.body)
        return n.parts

    def _add(self, n: Any, row: list[Any]) -> int:
        if len(self.nodes) >= _MOST:
            raise Unstorable
        self.at[id(n)] = len(self.nodes)
        self.kept.append(n)
        self.nodes.append(row)
        return self.at[id(n)]

    def places(self, many: Sequence[Any]) -> list[int]:
        return [self.at[id(n)] for n in many]

    def reducer(self, c: CommReducer) -> int:
        return self.at[id(c)] if id(c) in self.at else self._add(c, self._row(c))

    def _row(self, n: Any) -> list[Any]:
        word = _WORDS.get(type(n))
        if word is None or (word == "Call" and n.op not in _CALLS):
            raise Unstorable
        fields = _KINDS[word][1].items()
        return [word, *(field.write(self, getattr(n, name)) for name, field in fields)]


class _Reader:
    """Makes the operation that :class:`_Writer` wrote; whatever does not fit raises."""

    def __init__(self, ops: list[Operation]) -> None:
        self.ops = ops
        self.made: list[Any] = []
        self.axes: dict[int, IterVar] = {}

    def operation(self, data: dict[str, Any]) -> Operation:
        if "input" in data:
            shape = tuple(IntImm("int32", _int(d, least=0)) for d in data["shape"])
            span = data.get("range")
            limits = None if span is None else (float(span[0]), float(span[1]))
            return PlaceholderOp(_str(data["input"]), shape, dt.check(data["dtype"]), "", limits)
        rows = data["nodes"]
        if len(rows) > _MOST:
            raise ValueError(f"{len(rows)} nodes")
        own = {"axis": DATA_PAR, "reduce": COMM_REDUCE}
        wanted = {_int(row[0]): (row, kind) for name, kind in own.items() for row in data[name]}
        for k, row in enumerate(rows):
            self.made.append(self._node(row))
            if k in wanted:
                self.axes[k] = self._axis(*wanted[k])
        axis, reduce_axis = (tuple(self.axes[row[0]] for row in data[name]) for name in own)
        body = tuple(self.expr(k) for k in data["body"])
        if not body:
            raise ValueError("a computation without a body")
        return ComputeOp(_str(data["compute"]), axis, reduce_axis, body, _str(data["tag"]))

    def _axis(self, row: list[Any], kind: int) -> IterVar:
        var = self.var(row[0])
        least, extent = _int(row[1]), _int(row[2], least=0)
        bounds = (IntImm(var.dtype, least), IntImm(var.dtype, extent))
        return IterVar(Range.from_min_extent(*bounds), var, kind)

    def expr(self, k: Any) -> PrimExpr:
        node = self.made[_int(k, least=0)]
        if not isinstance(node, PrimExpr):
            raise TypeError(f"node {k} is no expression")
        return node

    def var(self, k: Any) -> Var:
        node = self.expr(k)
        if not isinstance(node, Var):
            raise TypeError(f"node {k} is no variable")
        return node

    def reducer(self, k: Any) -> CommReducer:
        node = self.made[_int(k, least=0)]
        if not isinstance(node, CommReducer):
            raise TypeError("a reduction without a reducer")
        return node

    def _node(self, row: list[Any]) -> Any:
        word, *rest = row
        kind, fields = _KINDS[word]
        given = zip(fields.items(), rest, strict=True)
        node = kind(**{name: field.read(self, value) for (name, field), value in given})
        if word == "Call" and node.op not in _CALLS:
            raise ValueError(f"a call of {node.op!r}")
        if word == "Combine" and len(node.lhs) != len(node.result):
            raise TypeError("a reducer of another number of values")
        if word == "Read":
            tensor = node.producer
            if len(node.indices) != len(tensor.shape) or tensor.dtype != node.dtype:
                raise ValueError("a read does not fit its tensor")
        return node


@dataclass(frozen=True)
class _Field:
    """How a field of a node is written, and read."""

    write: Callable[[_Writer, Any], Any]
    read: Callable[[_Reader, Any], Any]


_DTYPE = _Field(lambda w, dtype: dtype, lambda r, dtype: dt.check(dtype))
_TEXT = _Field(lambda w, text: str(text), lambda r, text: _str(text))
_INT = _Field(lambda w, n: int(n), lambda r, n: _int(n))
_INDEX = _Field(lambda w, n: n, lambda r, n: _int(n, least=0))
# infinities and NaN, too
_FLOAT = _Field(lambda w, x: float(x).hex(), lambda r, text: float.fromhex(text))
_EXPR = _Field(lambda w, n: w.at[id(n)], _Reader.expr)
_EXPRS = _Field(_Writer.places, lambda r, many: tuple(map(r.expr, many)))
_VAR = _Field(lambda w, n: w.at[id(n)], _Reader.var)
_VARS = _Field(_Writer.places, lambda r, many: tuple(map(r.var, many)))
_AXES = _Field(
    lambda w, axes: w.places([a.var for a in axes]),
    lambda r, many: tuple(r.axes[_int(k)] for k in many),
)
_REDUCER = _Field(_Writer.reducer, _Reader.reducer)
_TENSOR = _Field(
    lambda w, t: [w.place[t.op], t.value_index],
    lambda r, at: r.ops[_int(at[0], least=0)].output(_int(at[1], least=0)),
)

_BINARY = (
    *(Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max),
    *(EQ, NE, LT, LE, GT, GE, And, Or),
)
# The word that a row begins with -> the node, and its fields in the order of the row.
_KINDS: dict[str, tuple[Callable[..., Any], dict[str, _Field]]] = {
    "Combine": (
        CommReducer,
        {"name": _TEXT, "lhs": _VARS, "rhs": _VARS, "result": _EXPRS, "identity": _EXPRS},
    ),
    **{
        word: (kind, {"dtype": _DTYPE, **fields})
        for word, kind, fields in (
            ("Var", Var, {"name": _TEXT}),
            ("IntImm", IntImm, {"value": _INT}),
            ("FloatImm", FloatImm, {"value": _FLOAT}),
            ("Cast", Cast, {"value": _EXPR}),
            ("Not", Not, {"a": _EXPR}),
            ("Select", Select, dict.fromkeys(("condition", "true_value", "false_value"), _EXPR)),
            ("Let", Let, {"var": _VAR, "value": _EXPR, "body": _EXPR}),
            ("Read", ProducerLoad, {"producer": _TENSOR, "indices": _EXPRS}),
            ("Call", Call, {"op": _TEXT, "args": _EXPRS}),
            (
                "Reduce",
                Reduce,
                {
                    "combiner": _REDUCER, "source": _EXPRS, "axis": _AXES, "condition": _EXPR,
                    "value_index": _INDEX, "init": _EXPRS,
                },
            ),
            *((kind.__name__, kind, {"a": _EXPR, "b": _EXPR}) for kind in _BINARY),
        )
    },
}  # fmt: skip
_WORDS: dict[Any, str] = {SizeVar: "Var", **{kind: word for word, (kind, _) in _KINDS.items()}}


def _int(value: Any, least: int = -(2**63)) -> int:
    if type(value) is not int or not least <= value < 2**63:
        raise ValueError(f"{value!r} is no such integer")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
