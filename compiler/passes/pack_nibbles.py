"""PackNibbles: arrays of int4 and uint4 hold two elements a byte; their values are whole bytes.

    B[i] = A[i] + int4(1)      ->      B[i // 2] = (B[i // 2] & (240 >> (i % 2 * 4)))
                                                   | ((uint8(wrap(a + 1)) & 15) << (i % 2 * 4))

where ``a`` is ``int8(A[i // 2]) << (4 - i % 2 * 4) >> 4`` and ``wrap(x)`` is ``x << 4 >> 4``. The
element with the even index is in the low four bits. What a kernel allocates itself takes a byte an
element, which no two threads share. A vectorised loop that stores whole bytes stores them without
a look at what was there; another one becomes serial::

    for j in vectorized(8):            for j in vectorized(4):
        B[i * 8 + j] = A[j]      ->        B[i * 4 + j] = A[j * 2] & 15 | (A[j * 2 + 1] & 15) << 4

Threads that would store to one byte are refused: see :mod:`passes.check_nibbles`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.passes.check_nibbles import Index, check_apart
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    ARITHMETIC,
    BINARY,
    COMPARISONS,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Var,
)
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.ops.bits import bitwise
from whet.compiler.tir.stmt import (
    SERIAL,
    VECTORIZED,
    AllocateConst,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from whet.compiler.tir.visit.buffers import BufferRewriter
from whet.compiler.tir.visit.rewrite import changed, nodes_of, substitute

#: operations of elements whose value of the elements as bytes is right, or is once it is wrapped
_CALLS = frozenset(
    ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "if_then_else")
    + ("likely", "abs", "min", "max")
)


def pack_nibbles(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function without types of four bits: its parameters of them are bytes.

    Raises:
        LowerError: threads store to one byte, a function is handed such an array, or an operation
            is not known for elements of four bits.
    """
    for p in func.params:
        if isinstance(p, Var) and dt.is_nibble(p.dtype):
            _refuse(
                f"the argument {p.name}: {p.dtype}", "no number of four bits is passed by value"
            )
    packed = {p.data for p in func.params if isinstance(p, Buffer) and dt.is_nibble(p.dtype)}
    check_apart(func.body, packed)
    pack = _Pack(packed)
    body = pack(func.body)
    params = tuple(pack.bytes_of(p) if isinstance(p, Buffer) else p for p in func.params)
    return PrimFunc(params, body, func.ret_type, None, func.attrs)


class _Pack(BufferRewriter):
    def __init__(self, packed: set[Var]) -> None:
        rules: dict[type, Callable[[Any], Any]] = {
            **dict.fromkeys((*BINARY, *COMPARISONS), self._binary),
            **dict.fromkeys((Select, Broadcast, Shuffle, Ramp, Let), self._value),
            Var: self._variable,
            SizeVar: self._variable,
            IntImm: lambda n: IntImm(_wide(n.dtype), n.value) if dt.is_nibble(n.dtype) else n,
            Cast: self._cast,
            Call: self._call,
            BufferLoad: self._load,
            BufferStore: self._store,
            BufferView: self._handed,
            AllocateConst: self._const,
            LetStmt: self._let,
            Let: self._let,
            For: self._for,
        }
        super().__init__(self.bytes_of, None, rules)
        self.packed = packed
        self.analyzer = Analyzer()
        self.buffers: dict[Buffer, Buffer] = {}
        self.fresh: dict[Var, Var] = {}

    def bytes_of(self, b: Buffer) -> Buffer:
        """The buffer of bytes that holds a buffer of elements; another buffer as it is."""
        if not dt.is_nibble(b.dtype):
            return b
        if b not in self.buffers:
            if b.data in self.packed:
                (size,) = b.shape
                shape: tuple[PrimExpr, ...] = (self._expr(self._half(size + 1), size.dtype),)
                self.buffers[b] = replace(b, dtype="uint8", shape=shape)
            else:
                self.buffers[b] = replace(b, dtype=_wide(b.dtype))
        return self.buffers[b]

    # values

    def _variable(self, v: Var) -> Var:
        if not dt.is_nibble(v.dtype):
            return v
        return self.fresh.setdefault(v, Var(v.name, _wide(v.dtype)))

    def _value(self, n: Any) -> Any:
        n = self.children(n)
        return changed(n, dtype=_wide(n.dtype)) if dt.is_nibble(n.dtype) else n

    def _binary(self, n: Any) -> PrimExpr:
        kind, n = n.dtype, self.children(n)
        if not dt.is_nibble(kind):
            return n
        out = changed(n, dtype=_wide(kind))
        return _wrapped(out, kind) if isinstance(n, ARITHMETIC) else out

    def _cast(self, n: Cast) -> PrimExpr:
        x = self(n.value)
        if not dt.is_nibble(n.dtype):
            return changed(n, value=x) if x.dtype != n.dtype else x
        if dt.is_float(x.dtype):
            x = ops.cast(dt.vector("int32", dt.lanes(x.dtype)), x)
        return _wrapped(ops.cast(_wide(n.dtype), x), n.dtype)

    def _call(self, n: Call) -> PrimExpr:
        name = n.op.removeprefix("tir.")
        if name not in _CALLS and any(dt.is_nibble(x.dtype) for x in (n, *n.args)):
            if name in ("tvm_access_ptr", "address_of") or name.startswith("atomic"):
                _refuse_handed(n.args[0].buffer, name)  # type: ignore[attr-defined]
            kind = next(x.dtype for x in (n, *n.args) if dt.is_nibble(x.dtype))
            _refuse(f"{name} of {kind}", "it is not known for elements of four bits")
        kind, n = n.dtype, self.children(n)
        if not dt.is_nibble(kind):
            return n
        return _wrapped(changed(n, dtype=_wide(kind)), kind)

    def _let(self, n: Any) -> Any:
        var, n = self._variable(n.var), self.children(n)
        kinds = {"dtype": _wide(n.dtype)} if isinstance(n, Let) else {}
        return changed(n, var=var, **kinds)

    # memory

    def _handed(self, n: BufferView) -> BufferView:
        if dt.is_nibble(n.buffer.dtype):
            _refuse_handed(n.buffer, "it")
        return self.children(n)

    def _const(self, n: AllocateConst) -> Stmt:
        if not dt.is_nibble(n.buffer.dtype):
            return self.children(n)
        b = self.bytes_of(n.buffer)
        return changed(n, buffer=b, data=n.data.astype(b.dtype), body=self(n.body))

    def _load(self, n: BufferLoad) -> PrimExpr:
        kind, b = n.dtype, n.buffer
        n = self.children(n)
        if not dt.is_nibble(kind):
            return n
        if b.data not in self.packed:
            return changed(n, buffer=self.bytes_of(b), dtype=_wide(kind))
        where, odd = self._place(n.indices[0])
        byte = BufferLoad(self.bytes_of(b), (where,), _wide(kind, "uint8"), n.mask)
        if dt.is_uint(kind):
            return _bits("and", _bits("shift_right", byte, _times4(odd)), 15)
        up = 4 - _times4(odd)
        return _bits("shift_right", _bits("shift_left", Cast(_wide(kind), byte), up), 4)

    def _store(self, n: BufferStore) -> Stmt:
        b = n.buffer
        if not dt.is_nibble(b.dtype):
            return self.children(n)
        if b.data not in self.packed:
            return changed(self.children(n), buffer=self.bytes_of(b))
        lanes = dt.lanes(n.value.dtype)
        if lanes > 1:
            return self._store_lanes(n, lanes)
        where, odd = self._place(self(n.indices[0]))
        held = self.bytes_of(b)
        value = _bits("and", ops.cast("uint8", self(n.value)), 15)
        keep = _bits("shift_left", ops.const(15, "uint8"), 4 - _times4(odd))
        other = _bits("and", BufferLoad(held, (where,), "uint8"), keep)
        new = _bits("or", other, _bits("shift_left", value, _times4(odd)))
        out: Stmt = BufferStore(held, new, (where,))
        return out if n.mask is None else IfThenElse(self(n.mask), out, None)

    def _store_lanes(self, n: BufferStore, lanes: int) -> Stmt:
        """A vector: whole bytes where its lanes are those, else a lane at a time."""
        (index,) = n.indices
        if any(x.buffer.data is n.buffer.data for x in nodes_of(n.value, BufferLoad)):
            _refuse(
                f"a vector that is stored to {n.buffer.name}: {n.buffer.dtype}",
                "it is made of elements of the same array, and its bytes are stored one by one",
            )
        base = self._whole_bytes(index, lanes) if n.mask is None else None
        if base is not None:
            value = self(n.value)
            low, high = (
                Shuffle((value,), tuple(range(k, lanes, 2)), _lanes_of(value.dtype, lanes // 2))
                for k in (0, 1)
            )
            where = self._expr(self._half(base), dt.element(index.dtype))
            if lanes > 2:
                where = Ramp(where, 1, lanes // 2)
            return BufferStore(self.bytes_of(n.buffer), _byte(low, high), (where,))
        parts = []
        for k in range(lanes):
            at = index.base + k * index.stride if isinstance(index, Ramp) else _lane(index, k)
            mask = None if n.mask is None else _lane(n.mask, k)
            parts.append(self._store(BufferStore(n.buffer, _lane(n.value, k), (at,), mask)))
        return seq(*parts)

    def _whole_bytes(self, index: PrimExpr, lanes: int) -> Affine | None:
        """The first place of lanes that are whole bytes, side by side; None of others."""
        if not isinstance(index, Ramp) or index.stride != 1 or lanes % 2:
            return None
        base = self.analyzer.affine(index.base)
        return base if _is_even(base) else None

    def _for(self, n: For) -> Stmt:
        with self.analyzer.inside(n.var, n.min, n.extent):
            stores = [s for s in nodes_of(n.body, BufferStore) if s.buffer.data in self.packed]
            if n.kind != VECTORIZED or not stores:
                return self.children(n)
            with suppress(_NoPairs):
                return self._pairs(n)
            return changed(self.children(n), kind=SERIAL)

    def _pairs(self, n: For) -> Stmt:
        """A vectorised loop over elements as one over bytes."""
        s, extent, first = n.body, n.extent, n.min
        if not isinstance(s, BufferStore) or dt.lanes(s.value.dtype) > 1 or s.mask is not None:
            raise _NoPairs
        if not isinstance(extent, IntImm) or extent.value % 2 or not isinstance(first, IntImm):
            raise _NoPairs
        if any(x.buffer.data is s.buffer.data for x in nodes_of(s.value, BufferLoad)):
            raise _NoPairs  # an element may be read after its neighbour is stored
        index = self.analyzer.affine(s.indices[0])
        rest = index.without(n.var)
        fits = index.coefficient(n.var) == 1 and not rest.mentions({n.var})
        if not fits or not _is_even(rest.shifted(first.value)):
            raise _NoPairs
        pair = Var(n.var.name, n.var.dtype)
        low, high = (
            self(substitute(s.value, {n.var: pair * 2 + (first.value + k)})) for k in (0, 1)
        )
        start = self._expr(self._half(rest.shifted(first.value)), s.indices[0].dtype)
        store = BufferStore(self.bytes_of(s.buffer), _byte(low, high), (start + pair,))
        return For(pair, ops.const(0, first.dtype), ops.const(extent.value // 2, extent.dtype),
                   VECTORIZED, store, n.annotations, n.thread)  # fmt: skip

    # places

    def _place(self, index: PrimExpr) -> tuple[PrimExpr, PrimExpr | int]:
        """The byte of an element, and whether it is the upper half: a number where that is known.

        For the lanes of a vector a vector of both.
        """
        if isinstance(index, Ramp) and index.stride % 2 == 0:
            base, odd = self._place(index.base)
            if isinstance(odd, PrimExpr):
                odd = ops.cast(dt.vector(odd.dtype, index.lanes), odd)
            return Ramp(base, index.stride // 2, index.lanes), odd
        if dt.lanes(index.dtype) > 1:
            return index // 2, index % 2
        form = self.analyzer.affine(index)
        byte = self._expr(self._half(form), index.dtype)
        terms = {key: (atom, 1) for key, (atom, c) in form.terms.items() if c % 2}
        parity = form.const % 2
        return byte, self._expr(Affine(terms, parity), index.dtype) % 2 if terms else parity

    def _half(self, x: Affine | PrimExpr) -> Affine:
        return self.analyzer.floordiv(x if isinstance(x, Affine) else self.analyzer.affine(x), 2)

    def _expr(self, form: Affine, kind: str) -> PrimExpr:
        return form.to_expr(kind)


class _NoPairs(Exception):
    """A vectorised loop does not store whole bytes."""


def _is_even(form: Affine) -> bool:
    return Index.of(form).is_even


def _wide(dtype: str, element: str = "") -> str:
    """The type of a value of four bits as a byte; another type as it is."""
    name, lanes = dt.split(dtype)
    if not dt.is_nibble(name):
        return dtype
    return dt.vector(element or ("uint8" if dt.is_uint(name) else "int8"), lanes)


def _lanes_of(dtype: str, lanes: int) -> str:
    return dt.vector(dt.element(dtype), lanes)


def _lane(x: PrimExpr, k: int) -> PrimExpr:
    return Shuffle((x,), (k,), dt.element(x.dtype))


def _bits(op: str, a: PrimExpr, b: Any) -> PrimExpr:
    """A bit operation in the type of ``a``."""
    name = op if op.startswith("shift") else f"bitwise_{op}"
    return bitwise(name, a, ops.cast(a.dtype, b))


def _times4(odd: PrimExpr | int) -> Any:
    return odd * 4


def _byte(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Two elements as one byte."""
    a, b = (_bits("and", ops.cast("uint8", x), 15) for x in (low, high))
    return _bits("or", a, _bits("shift_left", b, 4))


def _wrapped(x: PrimExpr, dtype: str) -> PrimExpr:
    """The low four bits of a byte as a type of four bits has them."""
    if dt.is_uint(dtype):
        return _bits("and", x, 15)
    return _bits("shift_right", _bits("shift_left", x, 4), 4)


def _refuse_handed(b: Buffer, who: str) -> NoReturn:
    _refuse(
        f"{who} is handed {b.name}: {b.dtype}",
        "the address of an element is that of half a byte",
    )


def _refuse(what: str, why: str) -> NoReturn:
    raise LowerError(what, why, "convert the elements: astype('int8')")
