"""IRBuilder: loop IR written statement by statement, as TVM's ``tir.ir_builder``.

>>> from whet.compiler.tir.printer import stmt_text
>>> ib = create()
>>> A = ib.allocate("float32", 8, name="A")
>>> with ib.for_range(0, 8, name="i") as i:
...     with ib.if_scope(i < 4):
...         A[i] = i.astype("float32")
...     with ib.else_scope():
...         A[i] = 0.0
>>> print(stmt_text(ib.get()))
A = allocate([8], "float32", "global")
for i in range(8):
    if i < 4:
        A[i] = float32(i)
    else:
        A[i] = float32(0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer, check_indices, decl_buffer
from whet.compiler.tir.constants import cast, const, convert, is_number
from whet.compiler.tir.expr import Broadcast, BufferLoad, IntImm, IterVar, PrimExpr, SizeVar, Var
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)

Rest = Callable[[Stmt], Stmt]

_KINDS = (SERIAL, PARALLEL, VECTORIZED, UNROLLED)
_FOR_NUMBERS = dict(enumerate(_KINDS))
_ALIAS = {"vectorize": VECTORIZED, "unroll": UNROLLED}


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()


class BufferVar:
    """A buffer that is read as ``A[i, j]`` and written as ``A[i, j] = value``.

    One index into a buffer of several dimensions counts its elements in row-major order; a ramp
    as the last index reads or writes a vector.

    Attributes:
        buffer: the buffer.
    """

    def __init__(self, builder: IRBuilder, buffer: Buffer, shape: Sequence[Any] | None) -> None:
        self._builder = builder
        self._shape = tuple(shape) if shape else None
        self.buffer = buffer

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype

    def asobject(self) -> Var:
        """The variable that holds the address."""
        return self.buffer.data

    __whet_expr__ = asobject

    def __getitem__(self, index: Any) -> BufferLoad:
        indices, lanes = self._indices(index)
        return BufferLoad(self.buffer, indices, dt.vector(self.dtype, lanes))

    def __iter__(self) -> NoReturn:
        raise ArgumentError(
            f"iterate over {self.buffer.name}",
            "its elements are read in the kernel, there are none yet",
            f"index it: {self.buffer.name}[i]",
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        indices, lanes = self._indices(index)
        if is_number(value):
            value = const(value, self.dtype)
        value = convert(value)
        wanted = dt.vector(self.dtype, lanes)
        if lanes > 1 and value.dtype == self.dtype:
            value = Broadcast(value, lanes, wanted)
        if value.dtype != wanted:
            raise ArgumentError(
                f"{self.buffer.name}[...] = {value.dtype} value",
                f"data type does not match content type: {value.dtype} vs {wanted}",
                f"convert it: value.astype({wanted!r})",
            )
        self._builder.emit(BufferStore(self.buffer, value, indices))

    def _indices(self, index: Any) -> tuple[tuple[PrimExpr, ...], int]:
        given = index if isinstance(index, tuple) else (index,)
        at = tuple(convert(i) for i in given)
        check_indices(at, self.buffer.name)
        if self._shape is not None and len(at) == len(self._shape) and len(at) > 1:
            flat: PrimExpr = const(0)
            for i, d in zip(at, self._shape):
                flat = flat * d + i
            at = (flat,)
        lanes = max((dt.lanes(i.dtype) for i in at), default=1)
        if len(at) == 1 and self.buffer.ndim > 1:
            if lanes > 1:
                raise ArgumentError(
                    f"{self.buffer.name}[a vector]",
                    f"the buffer has {self.buffer.ndim} dimensions",
                    "give all indices, the last one as a ramp",
                )
            at = self.buffer._element(at[0])
        if len(at) != self.buffer.ndim:
            raise ArgumentError(
                f"{self.buffer.name}[{len(at)} indices]",
                f"the buffer has {self.buffer.ndim} dimensions",
            )
        return at, lanes


class IRBuilder:
    """Collects statements; scopes are ``with`` blocks."""

    def __init__(self) -> None:
        self._scopes: list[list[Stmt | Rest]] = [[]]
        self._likely: list[PrimExpr] = []

    # statements

    def emit(self, stmt: Stmt | PrimExpr | Rest) -> None:
        """Append a statement, an expression to evaluate, or a function of what follows."""
        if isinstance(stmt, PrimExpr):
            stmt = Evaluate(stmt)
        if not isinstance(stmt, Stmt) and not callable(stmt):
            raise ArgumentError(
                f"emit({stmt!r})", f"a {type(stmt).__name__} is neither a statement nor a value"
            )
        self._scopes[-1].append(stmt)

    def let(self, var_name: str | Var, value: Any) -> Var:
        """A variable that stands for ``value`` in what follows."""
        value = convert(value)
        var = var_name if isinstance(var_name, Var) else Var(var_name, value.dtype)
        self.emit(lambda body: LetStmt(var, value, body))
        return var

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Say ``attr_key = value`` about ``node`` for what follows.

        The ``thread_extent`` of a thread axis makes what follows a loop over these threads.
        """
        amount = convert(value)
        if isinstance(node, IterVar) and attr_key in ("thread_extent", "virtual_thread"):
            if not node.thread_tag:
                raise ArgumentError(
                    f"scope_attr({node!r}, {attr_key!r}, ...)",
                    "the axis is not bound to threads",
                    'use te.thread_axis("threadIdx.x")',
                )
            self.emit(lambda body: _thread_loop(node, amount, body))
            return
        about = node.buffer if isinstance(node, BufferVar) else node
        about = about.var if isinstance(about, IterVar) else about
        self.emit(lambda body: AttrStmt(about, attr_key, amount, body))

    def allocate(
        self,
        dtype: str,
        shape: Any,
        name: str = "buf",
        axis_separators: Sequence[int] | None = None,
        scope: str = "",
    ) -> BufferVar:
        """Memory for what follows, not initialised."""
        if axis_separators:
            raise ArgumentError("allocate(axis_separators=...)", "there are none here")
        dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if any(isinstance(d, (int, IntImm)) and int(d) <= 0 for d in dims):
            raise ArgumentError(
                f"allocate({dtype!r}, {shape!r}, name={name!r})",
                "there would be no elements",
                "a dimension is at least 1",
            )
        buffer = decl_buffer(dims, dtype, name, scope=scope)
        self.emit(lambda body: Allocate(buffer, body))
        return BufferVar(self, buffer, None)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """An address that something else provides, of elements of ``content_type``.

        As a parameter of a PrimFunc it is an array of one dimension, of any size.
        """
        size = SizeVar(f"{name}_size")
        return BufferVar(self, decl_buffer((size,), content_type, name, scope=scope), None)

    def buffer_ptr(self, buffer: Buffer, shape: Sequence[Any] | None = None) -> BufferVar:
        """Reads and writes of a buffer; as an array of ``shape`` where one is given."""
        return BufferVar(self, buffer, shape)

    def likely(self, expr: PrimExpr) -> PrimExpr:
        """``expr``, and ``if_scope`` knows of it that it holds nearly always."""
        self._likely.append(expr)
        return expr

    # scopes

    @contextmanager
    def for_range(
        self,
        begin: Any,
        end: Any,
        name: str = "i",
        dtype: str | None = None,
        kind: str | int = SERIAL,
    ) -> Iterator[Var]:
        """A loop from ``begin`` to before ``end``, of a kind ``"serial"``, ``"parallel"``, ..."""
        how = _FOR_NUMBERS.get(kind, str(kind)) if isinstance(kind, int) else _ALIAS.get(kind, kind)
        if how not in _KINDS:
            raise ArgumentError(
                f"for_range(kind={kind!r})",
                "there is no such kind of loop",
                f"kinds: {', '.join(_KINDS)}; scope_attr(axis, 'thread_extent', n) for threads",
            )
        first, last = convert(begin), convert(end)
        if dtype is None:
            dtype = dt.promote(first.dtype, last.dtype)
        extent = cast(dtype, last - first)
        var = Var(name, dtype)
        with self._nested() as body:
            yield var
        self.emit(For(var, cast(dtype, first), extent, how, _closed(body)))

    @contextmanager
    def while_loop(self, condition: Any) -> Iterator[None]:
        """A loop that goes on while ``condition`` holds."""
        test = convert(condition)
        with self._nested() as body:
            yield
        self.emit(While(test, _closed(body)))

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """The statements that run where ``cond`` holds."""
        test = convert(cond)
        with self._nested() as body:
            yield
        likely = any(test is known for known in self._likely)
        self.emit(IfThenElse(test, _closed(body), None, likely))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The statements that run where the condition of the ``if_scope`` before does not hold."""
        before = self._scopes[-1][-1] if self._scopes[-1] else None
        if not isinstance(before, IfThenElse) or before.else_case is not None:
            raise ArgumentError("else_scope()", "else_scope can only follow an if_scope")
        self._scopes[-1].pop()
        with self._nested() as body:
            yield
        self.emit(IfThenElse(before.condition, before.then_case, _closed(body), before.likely))

    @contextmanager
    def new_scope(self) -> Iterator[None]:
        """A scope of its own: what is allocated in it ends with it."""
        with self._nested() as body:
            yield
        self.emit(_closed(body))

    @contextmanager
    def _nested(self) -> Iterator[list[Stmt | Rest]]:
        depth = len(self._scopes)
        body: list[Stmt | Rest] = []
        self._scopes.append(body)
        try:
            yield body
        finally:
            del self._scopes[depth:]

    def get(self) -> Stmt:
        """All that was emitted, as one statement.

        Raises:
            ArgumentError: within a scope, or a second time.
        """
        if len(self._scopes) != 1:
            raise ArgumentError("ir_builder.get()", "a scope is still open")
        body = self._scopes.pop()
        self._scopes.append([])
        return _closed(body)


def _thread_loop(axis: IterVar, extent: PrimExpr, body: Stmt) -> Stmt:
    first = const(0, axis.var.dtype)
    return For(axis.var, first, extent, THREAD_BINDING, body, {}, axis.thread_tag)


def _closed(parts: list[Stmt | Rest]) -> Stmt:
    """The statements of a scope as one; those that take what follows take it."""
    after: list[Stmt] = []
    for part in reversed(parts):
        if isinstance(part, Stmt):
            after.insert(0, part)
        else:
            after = [part(seq(*after))]
    return seq(*after)
