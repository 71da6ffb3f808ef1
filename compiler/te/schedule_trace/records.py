"""A trace as plain data: every tensor, axis and thread is named before its first use.

A record either defines names (``{"define": "axes", "of": "C", "names": ["i", "j"]}``) or applies a
primitive (``{"primitive": "split", "stage": "C", "args": [...], "names": [...]}``). Values that are
no plain data are lists that begin with a word: ``["name", "i"]``, ``["stage", "C"]``, and
expressions such as ``["+", a, b]``.
"""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.tensor import Operation, Tensor
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.te.primitives.checks import ON_SCHEDULE
from whet.compiler.te.schedule_trace.definitions import Record
from whet.compiler.te.schedule_trace.steps import StageRef, Step
from whet.compiler.tir.expr import (
    THREAD_INDEX,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Not,
    PrimExpr,
    Select,
    StringImm,
    Var,
    is_choice,
)
from whet.compiler.tir.layouts.index_map import IndexMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WORDS = {Not: "not", Select: "select"}


def records(
    outputs: Sequence[Operation], steps: Sequence[Step]
) -> tuple[list[Record], dict[str, Any]]:
    """The records of a computation's steps, and by names what data cannot hold.

    That is variables in no shape, and tensor intrinsics.
    """
    writer = _Writer(outputs)
    for step in steps:
        writer.step(step)
    return [*writer.graph, *writer.out], writer.free


class _Writer:
    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.graph: list[Record] = []  # what defines the computation's own tensors comes first
        self.out: list[Record] = []
        self.names: dict[Any, str] = {}  # by id; a tensor by its operation's and its number
        self.taken = {"s", "te", "tir", "intrinsics"}
        self.kept: list[Any] = []
        self.free: dict[str, Any] = {}
        self.params: dict[Var, str] = {}  # those of an index map that is being written
        self.axis_of: dict[int, str] = {}  # a variable -> the name of its axis
        # operation -> how it is reached: an output, or an input of another
        self.paths: dict[Operation, tuple[Operation | None, int, int]] = {}
        waiting: list[Operation] = []
        for k, op in enumerate(outputs):
            self.paths[op] = (None, k, 0)
            waiting.append(op)
        for op in waiting:
            for k, t in enumerate(op.input_tensors):
                if t.op not in self.paths:
                    self.paths[t.op] = (op, k, t.value_index)
                    waiting.append(t.op)

    # names

    def fresh(self, wanted: str, *things: Any) -> str:
        """A new identifier, the name of some things."""
        base = re.sub(r"\W", "_", wanted) or "v"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name, k = base, 1
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        for x in things:
            self.names[id(x)] = name
            self.kept.append(x)
        return name

    def axes(self, axes: Iterable[IterVar]) -> list[str]:
        """New names for axes."""
        out = []
        for a in axes:
            name = self.fresh(a.var.name, a)
            self.axis_of[id(a.var)] = name
            out.append(name)
        return out

    def operation(self, op: Operation) -> str:
        """The name of a tensor of an operation of the computation."""
        known = self.names.get(id(op))
        if known is not None:
            return known
        reader, k, index = self.paths[op]
        name_of = op.name if op.num_outputs == 1 else f"{op.name}_v{index}"
        if reader is None:
            name = self.fresh(name_of, op)
            self.graph.append({"define": "output", "number": k, "names": [name]})
        else:
            of = self.operation(reader)
            name = self.fresh(name_of, op)
            self.graph.append({"define": "input", "of": of, "number": k, "names": [name]})
        return name

    def tensor(self, t: Tensor) -> str:
        """The name of one tensor."""
        if t.op.num_outputs == 1:
            return self.operation(t.op)
        key = (id(t.op), t.value_index)
        if key in self.names:
            return self.names[key]
        of = self.operation(t.op)
        if t.op in self.paths and self.paths[t.op][2] == t.value_index:
            return of
        name = self.fresh(f"{t.op.name}_v{t.value_index}")
        self.names[key] = name
        where = self.graph if t.op in self.paths else self.out
        where.append({"define": "tensor", "of": of, "number": t.value_index, "names": [name]})
        return name

    def axis(self, a: IterVar, step: Step) -> str:
        """The name of an axis, which may first have to be taken from its operation."""
        known = self.names.get(id(a))
        if known is not None:
            return known
        if a.iter_type == THREAD_INDEX:
            return self._thread(a)
        for ref in (*[x for x in step.args if isinstance(x, StageRef)], step.stage):
            if ref is not None and self._own_axes(ref, a):
                return self.names[id(a)]
        raise ScheduleError(f"the trace of {step.primitive}", f"nothing says what {a!r} is")

    def _own_axes(self, ref: StageRef, a: IterVar) -> bool:
        for kind, axes in (("axis", ref.op.axis), ("reduce_axis", ref.op.reduce_axis)):
            if any(x is a for x in axes):
                of = self.operation(ref.origin)
                self.out.append({"define": kind, "of": of, "names": self.axes(axes)})
                return True
        return False

    def _thread(self, a: IterVar) -> str:
        record: Record = {"define": "thread", "tag": a.thread_tag, "name": a.var.name}
        if a.dom is not None:
            record["dom"] = [self.value(x, None) for x in (a.dom.min, a.dom.extent)]
        record["names"] = self.axes([a])
        self.out.append(record)
        return record["names"][0]

    # steps and values

    def step(self, step: Step) -> None:
        """Append the record of a step, after what defines the names in it."""
        record: Record = {"primitive": step.primitive}
        if step.stage is not None:
            of = self.operation(step.stage.origin)
            if step.primitive not in ON_SCHEDULE:
                record["stage"] = of
        record["args"] = [self.value(a, step) for a in step.args]
        if step.options:
            record["options"] = {k: self.value(v, step) for k, v in step.options.items()}
        if step.primitive == "normalize":
            self.out.append(record)
            for op, place, axis in step.results:
                of, names = self.operation(op), self.axes([axis])
                self.out.append({"define": "leaf", "of": of, "number": place, "names": names})
            return
        names = []
        for r in step.results:
            if isinstance(r, Tensor):
                one = len(step.results) == 1
                name = self.fresh(r.op.name if one else f"{r.op.name}_v{r.value_index}")
                self.names[(id(r.op), r.value_index)] = name
                self.names.setdefault(id(r.op), name)
                self.kept.append(r.op)
                names.append(name)
            elif isinstance(r, Operation):
                names.append(self.fresh("group", r))
            else:
                names += self.axes([r])
        if names:
            record["names"] = names
        self.out.append(record)

    def value(self, x: Any, step: Step | None) -> Any:
        """An argument as plain data."""
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        if isinstance(x, IterVar):
            assert step is not None
            return ["name", self.axis(x, step)]
        if isinstance(x, Tensor):
            return ["name", self.tensor(x)]
        if isinstance(x, Operation):
            return ["name", self.operation(x)]
        if isinstance(x, TensorIntrin):
            return ["name", self._intrin(x)]
        if isinstance(x, IndexMap):
            return self._function(x)
        if isinstance(x, StageRef):
            return ["stage", self.operation(x.origin)]
        if isinstance(x, (list, tuple)):
            return ["list", *[self.value(y, step) for y in x]]
        if type(x) is IntImm and x.dtype == "int32":
            return x.value
        if type(x) is IntImm and x.dtype == "bool":
            return bool(x.value)
        if type(x) is StringImm:
            return x.value
        return self._expression(x, step)

    def _expression(self, x: PrimExpr, step: Step | None) -> list[Any]:
        if isinstance(x, Var):
            return self._variable(x, step)
        if isinstance(x, (IntImm, FloatImm)):
            return ["const", x.value, x.dtype]
        if isinstance(x, Cast):
            return ["cast", x.dtype, self.value(x.value, step)]
        word = "if_then_else" if is_choice(x) else getattr(x, "symbol", _WORDS.get(type(x)))
        if word:
            return [word, *[self.value(p, step) for p in x.parts]]
        raise ScheduleError(
            "the trace of a schedule",
            f"a {type(x).__name__} in an argument cannot be written down",
            "use numbers, axes, sizes, arithmetic and comparisons",
        )

    def _variable(self, v: Var, step: Step | None) -> list[Any]:
        if v in self.params:
            return ["param", self.params[v]]
        known = self.axis_of.get(id(v))
        if known is not None:
            return ["var", known]
        if id(v) in self.names:
            return ["name", self.names[id(v)]]
        ref = step.stage if step is not None else None
        for axes in (ref.op.axis, ref.op.reduce_axis) if ref is not None else ():
            for a in axes:
                if a.var is v:
                    assert step is not None
                    return ["var", self.axis(a, step)]
        return ["name", self._size(v)]

    def _function(self, m: IndexMap) -> list[Any]:
        """An index map as a function: the names of its parameters, and what it gives."""
        names = [v.name for v in m.initial_indices]
        plain = all(n.isidentifier() and not keyword.iskeyword(n) for n in names)
        if not plain or len({*names, "te"}) <= len(names):
            names = [f"i{k}" for k in range(len(names))]
        self.params = dict(zip(m.initial_indices, names))
        places = [self.value(x, None) for x in m.final_indices]
        self.params = {}
        for k in reversed(m.axis_separators):
            places.insert(k, ["separator"])
        return ["lambda", names, places]

    def _intrin(self, x: TensorIntrin) -> str:
        """The name of a tensor intrinsic, which is no data."""
        if id(x) not in self.names:
            name = self.fresh(x.name, x)
            self.free[name] = x
            self.out.append({"define": "intrin", "name": x.name, "names": [name]})
        return self.names[id(x)]

    def _size(self, v: Var) -> str:
        """The name of a symbolic size: a dimension of some tensor, or a variable of its own."""
        for op in self.paths:
            for k in range(op.num_outputs):
                for d, extent in enumerate(op.output_shape(k)):
                    if extent is v:
                        of = self.tensor(Tensor(op, k))
                        name = self.fresh(v.name, v)
                        self.graph.append(
                            {"define": "dimension", "of": of, "number": d, "names": [name]}
                        )
                        return name
        name = self.fresh(v.name, v)
        self.free[name] = v
        record: Record = {"define": "var", "name": v.name, "dtype": v.dtype, "names": [name]}
        self.graph.append(record)
        return name
