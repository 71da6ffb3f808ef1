"""The statements of the loop IR: one small immutable node class each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.late_numpy import np
from whet.compiler.tir.expr import IntImm, IterVar, PrimExpr, Range, Var
from whet.compiler.tir.node import Node, node_class

if TYPE_CHECKING:
    from whet.compiler.tir.buffer import Buffer

SERIAL, PARALLEL, VECTORIZED, UNROLLED = "serial", "parallel", "vectorized", "unrolled"
THREAD_BINDING = "thread_binding"
# the key of an annotation: how many steps of a parallel loop one hand-out takes
GRAIN = "grain"
# the key of an annotation: of the device's arrays, a thread reads only what it wrote itself in
# the loop's earlier steps
OWN_STEPS = "own_steps"
# the key of an attribute: a buffer's vectors are stored past the caches
NONTEMPORAL = "store_nontemporal"
# the key of an attribute in a loop: of the buffer, what its body reads so many steps later is
# prefetched
PREFETCH = "prefetch_scope"
# and of this one evenly over the steps of the loops within
PREFETCH_SPREAD = "prefetch_spread"
# the key of an attribute around a tree's steps along threadIdx.x: so many threads reduce
ALLREDUCE = "thread_allreduce"
# the key of an attribute around a shared buffer's allocation: its first byte in the arena
SHARED_OFFSET = "shared_offset"


class ForKind:
    """The kinds of loops, by TVM's names."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED = SERIAL, PARALLEL, VECTORIZED, UNROLLED
    THREAD_BINDING = THREAD_BINDING


class Stmt(Node):
    """Anything that is executed for what it does."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.text()


@dataclass(slots=True, eq=False, init=False)
class For(Stmt):
    """``for var in range(min, min + extent): body``, run as ``kind`` says.

    A loop of the kind ``thread_binding`` is spread over the GPU threads that ``thread`` names,
    e.g. ``"threadIdx.x"``. By meaning it is a loop like any other: what a body reads of its
    neighbours' shared memory, the stage that fills it computes for all of them.
    """

    var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: str
    body: Stmt
    annotations: dict[str, Any] = field(default_factory=dict)
    thread: str = ""

    def __init__(
        self,
        var: Any = None,
        min: Any = 0,
        extent: Any = 0,
        kind: str = SERIAL,
        body: Any = None,
        annotations: Any = None,
        thread: Any = "",
        *,
        loop_var: Any = None,
        thread_binding: Any = None,
    ) -> None:
        self.var = loop_var if var is None else var
        self.min = min
        self.extent = extent
        self.kind = kind
        self.body = body
        self.annotations = annotations
        self.thread = thread
        known = isinstance(min, PrimExpr) and isinstance(extent, PrimExpr)
        if not known or type(annotations) is not dict or thread_binding is not None or var is None:
            self.infer(thread_binding)

    @property
    def loop_var(self) -> Var:
        """``var``, TVM's name."""
        return self.var

    @property
    def thread_binding(self) -> IterVar | None:
        """The axis of the threads that the loop is spread over, None for none."""
        if not self.thread:
            return None
        domain = Range.from_min_extent(self.min, self.extent)
        return IterVar(domain, self.var, IterVar.ThreadIndex, self.thread)


@node_class("value", "indices")
class BufferStore(Stmt):
    """``buffer[indices] = value``; lanes where ``mask`` is false are not written."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    mask: PrimExpr | None = None


@node_class()
class SeqStmt(Stmt):
    """Statements one after the other."""

    seq: tuple[Stmt, ...]

    def __post_init__(self) -> None:
        if type(self.seq) is not tuple:
            self.seq = tuple(self.seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)


@node_class("condition")
class IfThenElse(Stmt):
    """``if condition: then_case else: else_case``; ``likely`` marks the guard of a loop's tail."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    likely: bool = False


@node_class()
class Allocate(Stmt):
    """``buffer`` exists, uninitialised, while ``body`` runs."""

    buffer: Buffer
    body: Stmt


@node_class()
class AllocateConst(Stmt):
    """``buffer`` holds ``data``, a compact array of its shape and dtype, while ``body`` runs."""

    buffer: Buffer
    data: np.ndarray
    body: Stmt


@node_class()
class DeclBuffer(Stmt):
    """``buffer`` is another view, for ``body``, of the memory that its ``data`` points to."""

    buffer: Buffer
    body: Stmt


@node_class("value")
class LetStmt(Stmt):
    """``body``, in which ``var`` stands for ``value``, computed once before it."""

    var: Var
    value: PrimExpr
    body: Stmt


@node_class("condition", "values")
class AssertStmt(Stmt):
    """``body``, if ``condition`` holds; else the kernel ends with an error.

    ``message`` may name ``values``, integers, as ``{0}``, ``{1}``, ...; at most eight of them.
    """

    condition: PrimExpr
    message: str
    body: Stmt
    values: tuple[PrimExpr, ...] = ()


@node_class("condition")
class While(Stmt):
    """``body`` again and again while ``condition`` holds."""

    condition: PrimExpr
    body: Stmt


@node_class()
class AttrStmt(Stmt):
    """``body``, of which ``key`` says ``value`` about ``node``: a buffer, a variable or None."""

    node: Any
    key: str
    value: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        if self.value is not None and not isinstance(self.value, PrimExpr):
            self.infer()


@node_class()
class BufferRegion(Node):
    """A part of a buffer: a range of indices along each dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    def __post_init__(self) -> None:
        self.region = tuple(self.region)


@node_class()
class MatchBufferRegion(Node):
    """``buffer`` is, within a block, another name of the part ``source`` of a larger one."""

    buffer: Buffer
    source: BufferRegion


@node_class()
class Block(Stmt):
    """A computation over axes of its own, whatever the loops around it are.

    Attributes:
        iter_vars: the axes, data-parallel or reduced, each with its domain.
        reads, writes: the regions that it reads and writes, in terms of the axes.
        name_hint: its name, by which a ``tir.Schedule`` finds it.
        init: what is done where all reduced axes have their first values, before ``body``.
        alloc_buffers: buffers that exist, uninitialised, within it.
        match_buffers: other names of parts of buffers.
        annotations: notes by name.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("iter_vars", "reads", "writes", "alloc_buffers", "match_buffers"):
            setattr(self, name, tuple(getattr(self, name) or ()))
        self.annotations = dict(self.annotations or {})


@node_class()
class BlockRealize(Stmt):
    """``block`` with a value for each of its axes, where ``predicate`` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def __post_init__(self) -> None:
        self.infer()


@node_class("value")
class Evaluate(Stmt):
    """``value`` computed for its side effect; a constant stands for doing nothing."""

    value: PrimExpr


def nothing() -> Stmt:
    """The statement that does nothing."""
    return Evaluate(IntImm("int32", 0))


def is_nothing(stmt: Stmt) -> bool:
    """True for the statement that does nothing."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def has_blocks(stmt: Stmt) -> bool:
    """True if a block is the statement or a part of it."""
    stack: list[Any] = [stmt]
    while stack:
        n = stack.pop()
        if isinstance(n, (Block, BlockRealize)):
            return True
        if isinstance(n, SeqStmt):
            stack += n.seq
        elif isinstance(n, IfThenElse):
            stack += (n.then_case, n.else_case)
        else:
            stack.append(getattr(n, "body", None)) if isinstance(n, Stmt) else None
    return False


def seq(*stmts: Stmt) -> Stmt:
    """Statements in order, nested sequences flattened and those that do nothing left out."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, SeqStmt):
            flat.extend(s.seq)
        elif not is_nothing(s):
            flat.append(s)
    if not flat:
        return nothing()
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def stmt_seq(*args: Any) -> Stmt:
    """Statements in order, TVM's name; an expression is evaluated."""
    return seq(*(x if isinstance(x, Stmt) else Evaluate(x) for x in args))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements that a sequence is made of."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]
