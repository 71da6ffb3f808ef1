"""Buffer: a named, typed, shaped piece of memory that the loop IR reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import reduce
from itertools import accumulate
from operator import mul
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.constants import cast, const, convert
from whet.compiler.tir.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var, int_value
from whet.compiler.tir.node import Node, node_class
from whet.compiler.tir.stmt import BufferStore

_ZERO = IntImm("int32", 0)
#: the masks of :meth:`Buffer.access_ptr`
_ACCESS = {"r": 1, "w": 2, "rw": 3, "wr": 3}


def check_indices(indices: Sequence[PrimExpr], of: str = "a buffer") -> None:
    """Refuse indices that are no integers.

    Raises:
        ArgumentError: naming the index and its type.
    """
    for i in indices:
        if dt.is_float(i.dtype) or i.dtype == "handle":
            raise ArgumentError(
                f"{of}[{i!r}]",
                f"the index is a {i.dtype}",
                'an index is an integer: index.astype("int32")',
            )


@node_class()
class Buffer(Node):
    """An array in memory, row-major and without gaps unless ``strides`` says otherwise.

    Attributes:
        name: for people and generated code.
        shape: extents, outermost first; expressions of an integer type.
        dtype: element type.
        storage_scope: where it is kept: ``"global"`` (memory), ``"local"`` (registers, as far as
            they reach), ``"shared"``, ...
        strides: steps of each dimension in elements; none for a compact row-major array.
        elem_offset: the first element, counted in elements from ``data``.
        data: the variable that holds the address; buffers with the same one share their memory.
        data_alignment: bytes that the address is a multiple of, for what is allocated.
        offset_factor: ``elem_offset`` is a multiple of it.
    """

    name: str
    shape: tuple[PrimExpr, ...]
    dtype: str
    storage_scope: str = "global"
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr = _ZERO
    data: Var = field(default=None)  # type: ignore[assignment]
    data_alignment: int = 64
    offset_factor: int = 1

    def __post_init__(self) -> None:
        self.dtype = dt.check(self.dtype)
        if self.data is None:
            self.data = Var(self.name, "handle")

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def scope(self) -> str:
        """The storage scope, by TVM's name for it."""
        return self.storage_scope

    def steps(self) -> tuple[PrimExpr, ...]:
        """The step of each dimension in elements: ``strides``, or those of a compact array."""
        if self.strides:
            return self.strides
        products = accumulate(self.shape[:0:-1], mul, initial=const(1))
        return tuple(products)[::-1] if self.shape else ()

    def offset_of(self, indices: Sequence[Any]) -> PrimExpr:
        """How many elements from ``data`` the element at ``indices`` is."""
        self._check(indices, "offset_of")
        out = self.elem_offset
        for i, step in zip(indices, self.steps()):
            out = out + i * step
        return out

    def vload(self, begin: Any, dtype: str | None = None) -> BufferLoad:
        """``self[begin]``; a vector ``dtype`` reads consecutive elements of the last axis.

        Raises:
            ArgumentError: for another number of indices, or another element type.
        """
        return BufferLoad(self, self._begin(begin, dtype, "vload"), dtype or self.dtype)

    def vstore(self, begin: Any, value: Any) -> BufferStore:
        """The statement ``self[begin] = value``; a vector goes to consecutive elements.

        Raises:
            ArgumentError: for another number of indices, or another element type.
        """
        x = value if isinstance(value, PrimExpr) else cast(self.dtype, value)
        return BufferStore(self, x, self._begin(begin, x.dtype, "vstore"))

    def access_ptr(
        self,
        access_mask: str | int = "rw",
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> Call:
        """A pointer to the memory, for a call that reads (``"r"``) or writes (``"w"``) it.

        Args:
            access_mask: ``"r"``, ``"w"`` or ``"rw"``; also 1, 2 or 3.
            ptr_type: type of the pointer; only ``"handle"`` is known.
            content_lanes: elements in what the pointer points to.
            offset: elements of memory from the first one: strides are not looked at.
            extent: elements that may be accessed; all from ``offset`` on by default.

        Raises:
            ArgumentError: for another mask, and for an offset into a buffer of which no dimension
                has stride 1 where it is no multiple of its strides.
        """
        mask = _ACCESS.get(access_mask, 0) if isinstance(access_mask, str) else access_mask
        if mask not in (1, 2, 3):
            raise ArgumentError(
                f"{self.name}.access_ptr({access_mask!r})", "the mask is 'r', 'w' or 'rw'"
            )
        if extent is None:
            extent = self._span() - offset
        if content_lanes > 1:
            extent = extent // content_lanes
        first = BufferLoad(self, self._element(convert(offset)), self.dtype)
        return Call(ptr_type, "tvm_access_ptr", (first, convert(extent), const(mask)))

    def get_flattened_buffer(self) -> Buffer:
        """The same memory as a buffer of one dimension."""
        return replace(self, shape=(self._span(),), strides=())

    def _span(self) -> PrimExpr:
        """The number of elements of memory that the array takes, gaps among them."""
        if self.strides and self.shape:
            return self.shape[0] * self.strides[0]
        return reduce(mul, self.shape, const(1))

    def _element(self, offset: PrimExpr) -> tuple[PrimExpr, ...]:
        """Indices whose place is ``offset`` elements of memory from the first one."""
        if self.strides:
            return self._strided_element(offset)
        out: list[PrimExpr] = []
        for d in reversed(self.shape[1:]):
            out.append(offset % d)
            offset = offset // d
        return tuple(reversed([*out, offset][: self.ndim]))

    def _strided_element(self, offset: PrimExpr) -> tuple[PrimExpr, ...]:
        """An address is no access: an index may be larger than its dimension."""
        steps = [int_value(x) for x in self.strides]
        indices: list[PrimExpr] = [const(0)] * self.ndim
        if 1 in steps:
            indices[steps.index(1)] = offset
            return tuple(indices)
        rest = int_value(offset)
        if rest is not None:
            known = [(x, d) for d, x in enumerate(steps) if x]
            for step, d in sorted(known, reverse=True):
                indices[d], rest = const(rest // step), rest % step
        if rest != 0:
            strides = ", ".join(map(str, self.strides))
            raise ArgumentError(
                f"{self.name}.access_ptr(offset={offset})",
                f"no dimension has stride 1, and it is no multiple of the strides ({strides})",
                "declare it with a dimension of stride 1, or give offset=0 and pass the offset on",
            )
        return tuple(indices)

    def _check(self, indices: Sequence[Any], method: str) -> None:
        if len(indices) != self.ndim:
            raise ArgumentError(
                f"{self.name}.{method}({len(indices)} indices)",
                f"the buffer has {self.ndim} dimensions",
            )

    def _begin(self, begin: Any, dtype: str | None, method: str) -> tuple[PrimExpr, ...]:
        given = begin if isinstance(begin, (tuple, list)) else (begin,)
        self._check(given, method)
        wanted = self.dtype if dtype is None else dtype
        lanes, rest = divmod(dt.lanes(wanted), dt.lanes(self.dtype))
        if dt.element(wanted) != dt.element(self.dtype) or rest:
            raise ArgumentError(
                f"{self.name}.{method}(dtype={dtype})", f"the buffer holds {self.dtype}"
            )
        exprs = [convert(i) for i in given]
        if lanes > 1 and exprs:
            last = exprs[-1]
            exprs[-1] = Ramp(last, 1, lanes, dt.vector(last.dtype, lanes))
        return tuple(exprs)

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {len(self.shape)}-d, {self.dtype})"

    def __str__(self) -> str:
        scope = "" if self.storage_scope == "global" else f" in {self.storage_scope}"
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{scope}"


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
) -> Buffer:
    """A new buffer (TVM's arguments).

    Args:
        shape: extents: an int, an expression or a tuple of them.
        dtype: element type; float32 by default.
        name: for people.
        data: the variable that holds the address; a new one by default.
        strides: steps of each dimension in elements; compact by default.
        elem_offset: elements from the address to the first one.
        scope: ``"global"`` by default.
        data_alignment: in bytes.
        offset_factor: what ``elem_offset`` is a multiple of; not 0: the offset is a new variable.
        buffer_type: ``""``; TVM's ``"auto_broadcast"`` is not known.

    Raises:
        ArgumentError: for another number of strides than dimensions, or a type that is not known.
    """
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    steps = () if strides is None else tuple(convert(x) for x in strides)
    if steps and len(steps) != len(dims):
        raise ArgumentError(
            f"decl_buffer({name})", f"{len(steps)} strides were given for {len(dims)} dimensions"
        )
    if buffer_type:
        raise ArgumentError(
            f"decl_buffer({name}, buffer_type={buffer_type!r})", "only the default type is known"
        )
    kind = dt.check("float32" if dtype is None else dtype)
    offset = _ZERO if elem_offset is None else convert(elem_offset)
    if elem_offset is None and offset_factor:
        offset = Var(f"{name}.elem_offset")
    return Buffer(
        name,
        tuple(convert(d) for d in dims),
        kind,
        scope or "global",
        steps,
        offset,
        data if data is not None else Var(name, "handle"),
        data_alignment if data_alignment > 0 else 64,
        max(offset_factor, 1),
    )
