"""True if two pieces of loop IR are the same but for the identity of variables and buffers."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.late_numpy import is_array
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.constants import const, is_numpy_number
from whet.compiler.tir.expr import (
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Shuffle,
    StringImm,
    Var,
)
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
)
from whet.compiler.tir.visit.expect import EXPRESSIONS, expect
from whet.compiler.tir.visit.rewrite import TABLE

# what a node is besides its children, and besides the variables and buffers that it names
_FIELDS: dict[type, tuple[str, ...]] = {
    IntImm: ("value",),
    FloatImm: ("value",),
    StringImm: ("value",),
    Call: ("op",),
    Ramp: ("stride", "lanes"),
    Broadcast: ("lanes",),
    Shuffle: ("indices",),
    Reduce: ("value_index",),
    For: ("kind", "thread"),
    IfThenElse: ("likely",),
    AssertStmt: ("message",),
    AttrStmt: ("key",),
}


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True if two things have the same structure.

    They are functions, modules, statements, expressions, buffers, ranges, axes, tensors, numbers,
    texts, targets, arrays, None, and lists and dicts of these; of anything else, an object equals
    itself alone. A number is the constant of its type.

    Names do not matter; a variable or buffer that is defined inside corresponds to the one that is
    defined at the same place. What is defined outside must be the same object, unless
    ``map_free_vars`` lets it correspond, too.
    """
    return _encoded(lhs, map_free_vars) == _encoded(rhs, map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise if two pieces differ in structure.

    Raises:
        ArgumentError: (a ValueError) with the difference of their texts.
    """
    if structural_equal(lhs, rhs, map_free_vars):
        return

    def difference() -> str:
        a, b = str(lhs).splitlines(), str(rhs).splitlines()
        lines = list(difflib.unified_diff(a, b, "lhs", "rhs", lineterm=""))
        return "\n".join(lines) or "the texts are the same: variables or types differ"

    raise ArgumentError("assert_structural_equal", "the two differ in structure", difference)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that is the same for what is :func:`structural_equal`, in every process.

    Variables defined outside count by name unless ``map_free_vars``.

    Raises:
        ArgumentError: for what has no structure, such as a Python function.
    """
    _check_hashed(node)
    text = repr(_encoded(node, map_free_vars, by_name=True))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """True if two expressions are written the same, with the same variables.

    Raises:
        ArgumentError: for anything but expressions.
    """
    expect(lhs, EXPRESSIONS, "expr_deep_equal(lhs)")
    expect(rhs, EXPRESSIONS, "expr_deep_equal(rhs)")
    return structural_equal(lhs, rhs)


def _encoded(node: Any, map_free: bool, by_name: bool = False) -> Hashable:
    return _Encoder(map_free, by_name).node(node)


class _Encoder:
    """A tree as nested tuples, variables and buffers numbered in the order of their definition."""

    def __init__(self, map_free: bool, by_name: bool) -> None:
        self.map_free = map_free
        self.by_name = by_name
        self.numbers: dict[Any, int] = {}

    def node(self, n: Any) -> Hashable:
        """The code of anything."""
        if isinstance(n, IRModule):
            return tuple((name, self.node(f)) for name, f in sorted(n.functions.items()))
        if isinstance(n, PrimFunc):
            params = tuple(self._param(p) for p in n.params)
            return ("function", params, self.node(n.body))
        if isinstance(n, Var):
            return self._name(n)
        if type(n) not in TABLE:
            return self._other(n)
        kind = type(n)
        head: list[Hashable] = [kind.__name__, getattr(n, "dtype", "")]
        head += [_plain(getattr(n, f)) for f in _FIELDS.get(kind, ())]
        if isinstance(n, For) and n.annotations:
            head.append(tuple((k, _plain(v)) for k, v in sorted(n.annotations.items())))
        parts = n.parts
        if isinstance(n, (For, LetStmt, Let)):
            before = tuple(self.node(p) for p in parts[:-1])  # the variable is not known in these
            return (*head, before, self._define(n.var), self.node(parts[-1]))
        if isinstance(n, (Allocate, AllocateConst, DeclBuffer)):
            return (*head, *self._holder(n))
        if isinstance(n, Block):
            return (*head, *self._block(n))
        if isinstance(n, AttrStmt):
            return (*head, self._about(n), *(self.node(p) for p in parts))
        if isinstance(n, (BufferLoad, BufferStore, BufferView)):
            head.append(self._name(n.buffer))
            if not isinstance(n, BufferView):
                head.append(n.mask is None)
        elif isinstance(n, ProducerLoad):
            head += [self._name(n.producer.op), n.producer.value_index]
        elif isinstance(n, Reduce):
            head.append(tuple(self._define(a.var) for a in n.axis))
            head.append(n.combiner.name)
        return (*head, *(self.node(p) for p in parts))

    def _other(self, n: Any) -> Hashable:
        """What is no function, statement or expression."""
        if n is None or isinstance(n, str):
            return ("text", None if n is None else str(n))
        if isinstance(n, (bool, int, float)) or is_numpy_number(n):
            return self.node(const(n))
        if isinstance(n, (list, tuple)):
            return ("list", *map(self.node, n))
        if isinstance(n, Mapping):
            items = [(self.node(k), k) for k in n]
            return ("dict", *((key, self.node(n[k])) for key, k in sorted(items, key=_text)))
        if isinstance(n, Buffer):
            return self._name(n) if n in self.numbers else self._param(n)
        if isinstance(n, Range):
            return ("range", self.node(n.min), self.node(n.extent))
        if isinstance(n, IterVar):
            return ("axis", self.node(n.dom), self._define(n.var), n.iter_type, n.thread_tag)
        if hasattr(n, "op") and hasattr(n, "value_index"):  # a tensor: that of its operation
            return ("tensor", self._name(n.op), n.value_index)
        data = as_array(n)
        if data is not None:
            content = hashlib.sha256(data.tobytes()).hexdigest()
            return ("array", str(data.dtype), tuple(data.shape), content)
        if hasattr(n, "to_json") and hasattr(n, "kind"):  # a target
            return ("target", repr(n))
        return ("object", self._name(n))

    def _holder(self, n: Allocate | AllocateConst | DeclBuffer) -> tuple[Hashable, ...]:
        data: Hashable = None
        if isinstance(n, AllocateConst):
            data = hashlib.sha256(n.data.tobytes()).hexdigest()
        if not isinstance(n, DeclBuffer):
            self._define(n.buffer.data)
        return (data, self._describe(n.buffer), self.node(n.body))

    def _block(self, n: Block) -> Iterator[Hashable]:
        """The axes, buffers and statements of a block; its name does not count."""
        for a in n.iter_vars:
            yield (a.iter_type, *self._span(a.domain), self._define(a.var))
        for b in n.alloc_buffers:
            yield (self._define(b.data), self._describe(b))
        for m in n.match_buffers:
            region = self._region(m.source)
            yield (region, self._define(m.buffer.data), self._describe(m.buffer))
        for regions in (n.reads, n.writes):
            yield tuple(map(self._region, regions))
        yield tuple((k, _plain(v)) for k, v in sorted(n.annotations.items()))
        yield (self.node(n.init), self.node(n.body))

    def _region(self, x: BufferRegion) -> Hashable:
        return (self._name(x.buffer), *(self._span(r) for r in x.region))

    def _span(self, r: Range) -> tuple[Hashable, ...]:
        return self.node(r.min), self.node(r.extent)

    def _about(self, n: AttrStmt) -> Hashable:
        about = getattr(n.node, "var", n.node)
        if isinstance(about, Buffer):
            return self._name(about)
        if isinstance(about, Var):
            return self._define(about) if n.key == "thread_extent" else self._name(about)
        return repr(about)

    def _param(self, p: Buffer | Var) -> Hashable:
        if isinstance(p, Var):
            return self._define(p)
        for d in (*p.shape, *p.strides, p.elem_offset):
            self._symbols(d)
        self._define(p.data)
        return self._describe(p)

    def _symbols(self, n: PrimExpr) -> None:
        """A parameter's size defines the variables in it."""
        if isinstance(n, Var):
            self.numbers.setdefault(n, len(self.numbers))
        for p in n.parts:
            self._symbols(p)

    def _describe(self, b: Buffer) -> Hashable:
        """A buffer where it is defined."""
        sizes = tuple(self.node(d) for d in (*b.shape, *b.strides, b.elem_offset))
        number = self.numbers.setdefault(b, len(self.numbers))
        return ("buffer", number, b.dtype, b.storage_scope, len(b.shape), sizes, self._name(b.data))

    def _define(self, v: Any) -> Hashable:
        self.numbers.setdefault(v, len(self.numbers))
        return self._name(v)

    def _name(self, v: Any) -> Hashable:
        dtype = getattr(v, "dtype", "")
        number = self.numbers.get(v)
        if number is None and self.map_free:
            number = self.numbers[v] = len(self.numbers)
        if number is not None:
            return ("v", number, dtype)
        return ("free", str(getattr(v, "name", v)), dtype) if self.by_name else ("free", id(v))


def _text(item: tuple[Hashable, Any]) -> str:
    """The order of a dict's items."""
    return repr(item[0])


def as_array(value: Any) -> Any:
    """The numbers of an array as numpy's; None for anything else."""
    if is_array(value):
        return value
    given = getattr(value, "numpy", None)
    return given() if callable(given) else None


def _check_hashed(n: Any) -> None:
    """Refuse what is known by its identity alone, which is another one in every process.

    Raises:
        ArgumentError: with its type.
    """
    if isinstance(n, Mapping) and not isinstance(n, IRModule):
        n = (*n, *n.values())
    if isinstance(n, (list, tuple)):
        for part in n:
            _check_hashed(part)
        return
    known = type(n) in TABLE or isinstance(n, (IRModule, PrimFunc, Var))
    if not known and _Encoder(False, False).node(n)[0] == "object":  # type: ignore[index]
        raise ArgumentError(
            f"structural_hash({n!r})",
            f"a {type(n).__name__} has no structure",
            "functions, statements, expressions, numbers, texts, arrays, lists and dicts have",
        )


def _plain(value: Any) -> Hashable:
    """A field as something that compares and prints by value."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return repr(value.value)
    return value if isinstance(value, (str, int, bool, tuple)) else repr(value)
