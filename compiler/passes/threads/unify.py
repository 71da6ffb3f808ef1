"""UnifyThreads: the thread-bound loops of one kernel become its threads.

Before::

    for i in thread_binding(6, "blockIdx.x"):
        for j in thread_binding(8, "threadIdx.x"):
            S[j] = A[i * 8 + j]
        for j in thread_binding(5, "threadIdx.x"):
            B[i * 5 + j] = S[j + 3]

After::

    with thread_extent(blockIdx.x, 6), thread_extent(threadIdx.x, 8):
        S[threadIdx.x] = A[blockIdx.x * 8 + threadIdx.x]
        if threadIdx.x < 5:
            B[blockIdx.x * 5 + threadIdx.x] = S[threadIdx.x + 3]

By meaning a thread-bound loop is a loop. What only a loop can do, one step after the other, is
refused here: several threads that add to one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from whet.compiler.arith import Analyzer
from whet.compiler.errors import LowerError, PrunedError
from whet.compiler.passes.threads.guards import (
    HARDWARE,
    ByOne,
    differing,
    guarded,
    is_thread_loop,
    region_of_one,
    without_condition,
)
from whet.compiler.passes.threads.overlap import overlapping
from whet.compiler.tir.analysis.conditions import negated, pinned
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    EQ,
    LT,
    BufferLoad,
    IntImm,
    PrimExpr,
    Ramp,
    SizeVar,
    Var,
    int_value,
    is_int,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.stmt import (
    THREAD_BINDING,
    UNROLLED,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes_of, statements_of, variables

# "Technical Specifications per Compute Capability", CUDA C++ Programming Guide. How many threads a
# block has in all is the target's to say.
_MOST = {"blockIdx.x": 2**31 - 1, "blockIdx.y": 65535, "blockIdx.z": 65535, "threadIdx.z": 64}


@dataclass
class Threads:
    """The threads of one kernel.

    Attributes:
        variables: tag -> the variable that stands for it.
        extents: tag -> how many there are.
    """

    variables: dict[str, Var] = field(default_factory=dict)
    extents: dict[str, PrimExpr] = field(default_factory=dict)


Wrap = Callable[[Stmt], Stmt]


def unify_threads(region: Stmt, around: Sequence[Wrap] = ()) -> tuple[Stmt, Threads]:
    """A kernel's body and its threads, for an outermost region of thread-bound loops.

    Args:
        region: the loops.
        around: what puts something around the body that is the same for all threads, a condition
            or a constant array; outermost first.

    Raises:
        LowerError: if threads would overwrite each other's sums, or a tag's loops have extents
            of which none is known to be the largest.
    """
    threads = _threads_of(region)
    body = _Unifier(threads)(region)
    for wrap in reversed(around):
        body = wrap(body)
    for tag in reversed(HARDWARE):
        if tag in threads.variables:
            body = AttrStmt(threads.variables[tag], "thread_extent", threads.extents[tag], body)
    return body, threads


def _threads_of(region: Stmt) -> Threads:
    found: dict[str, list[PrimExpr]] = {}
    for n in filter(is_thread_loop, nodes_of(region, For)):
        found.setdefault(n.thread, []).append(n.extent)
    threads = Threads()
    for tag in HARDWARE:
        if tag in found:
            threads.variables[tag] = Var(tag)
            threads.extents[tag] = _at_least_one(region, tag, _largest(tag, found[tag]))
    return threads


def _largest(tag: str, extents: list[PrimExpr]) -> PrimExpr:
    text = Printer().expr  # one printer: two variables of one name are not the same
    distinct = list({text(x): x for x in extents}.values())
    largest = distinct[0]
    for x in distinct[1:]:
        if not isinstance(x, IntImm) or not isinstance(largest, IntImm):
            raise LowerError(
                f"threads for the loops bound to {tag}",
                f"their extents {', '.join(map(text, distinct))} differ and are not all known",
                "bind loops of one extent, or of constant ones",
            )
        largest = x if x.value > largest.value else largest
    most = _MOST.get(tag)
    if most is not None and isinstance(largest, IntImm) and largest.value > most:
        what = "threads" if tag.startswith("threadIdx") else "blocks"
        raise PrunedError(
            f"{largest.value} {what} for the loops bound to {tag}",
            f"a GPU has at most {most} there",
            f"split the loop and bind a part, or bind it to {tag[:-1]}x",
            what,
        )
    return largest


def _at_least_one(region: Stmt, tag: str, extent: PrimExpr) -> PrimExpr:
    """How many threads there are: a block without any would leave out the work beside its loops."""
    known = Analyzer()
    if not tag.startswith("threadIdx") or known.positive(known.affine(extent)):
        return extent
    stack: list[Stmt] = [region]
    while stack:
        n = stack.pop()
        if isinstance(n, BufferStore):
            return ops.maximum(extent, 1)
        if not (isinstance(n, For) and n.thread == tag):
            stack.extend(statements_of(n))
    return extent


class _Unifier(Rewriter):
    """Replaces loops by threads; keeps book of which threads run the statement at hand."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.text = Printer().expr
        self.values: dict[Var, PrimExpr] = {}
        self.active: list[str] = []  # tags of the loops around, outermost first
        self.depth: dict[Buffer, int] = {}  # local buffer -> how many loops stood around it
        #: variable or local buffer -> the variables and the buffers that its value is made of
        self.origin: dict[Var | Buffer, set[Var | Buffer]] = {}
        self.spans: dict[Var, int | None] = {}  # threads and loops -> how many, where known
        self.chosen: set[Var] = set()  # threads of which one was chosen: `if threadIdx.x == 0`
        self.conditions: list[PrimExpr] = []  # what holds at the statement at hand
        #: statements that one thread runs alone -> the tags whose threads could have
        self.by_one: ByOne = {}
        super().__init__(
            {
                **dict.fromkeys((Var, SizeVar), lambda v: self.values.get(v, v)),
                For: self._loop,
                Allocate: self._allocate,
                BufferStore: self._store,
                LetStmt: self._let,
                IfThenElse: self._if,
            }
        )

    def _loop(self, n: For) -> Stmt:
        if not is_thread_loop(n):
            return self._plain_loop(n)
        _check_reduction(n)
        thread = self.threads.variables[n.thread]
        first = self(n.min)
        self.values[n.var] = first + thread
        extent, body = self(n.extent), n.body
        there = self.text(self.threads.extents[n.thread])
        if self.text(extent) != there:
            # of `max(n, 1)` threads all have a step, or n is 0: a condition that they share
            shared = self.text(ops.maximum(extent, 1)) == there
            whole = isinstance(extent, IntImm) and extent.value > 0
            test = ops.compare(LT, 0 if shared else thread, extent)
            body = guarded(body, test, n.thread, differing(body, n.var) if whole else None)
        before = self.spans.get(thread)
        self.spans[thread] = int_value(extent)
        self.active.append(n.thread)
        body = self._within(thread < extent, body)
        self.active.pop()
        self.spans[thread] = before
        return body

    def _plain_loop(self, n: For) -> Stmt:
        begin, extent = self(n.min), self(n.extent)
        if is_int(begin, 0):
            self.spans[n.var] = int_value(extent)
        else:
            self.origin[n.var] = self._sources(begin)
        body = self._within(n.var < extent, n.body)
        if n.kind == THREAD_BINDING:  # virtual threads that nobody has interleaved
            return replace(n, min=begin, extent=extent, body=body, kind=UNROLLED, thread="")
        return changed(n, min=begin, extent=extent, body=body)

    def _within(self, condition: PrimExpr, n: Stmt) -> Stmt:
        """A statement where a condition holds."""
        self.conditions.append(condition)
        out = self(n)
        self.conditions.pop()
        return out

    def _allocate(self, n: Allocate) -> Stmt:
        b = n.buffer
        if b.storage_scope == "global":  # memory of the host's side cannot be had in a kernel
            inside = any(tag.startswith("threadIdx") for tag in self.active)
            new = replace(b, storage_scope="local" if inside else "shared")
            return self._allocate(Allocate(new, replace_buffers(n.body, {b: new})))
        if b.storage_scope == "local":
            self.depth[b] = len(self.active)
        body = self(n.body)
        chosen = None if b.storage_scope != "local" else region_of_one(b, n.body, body, self.by_one)
        if chosen is not None:
            condition, tags, work = chosen
            out = IfThenElse(condition, Allocate(b, work))
            self.by_one[id(out)] = out, tags
            return out
        return changed(n, body=body)

    def _store(self, n: BufferStore) -> Stmt:
        if n.buffer.storage_scope == "local":
            self._check_local(n)
            out = self.children(n)
            self.origin.setdefault(n.buffer, set()).update(self._sources(out.value))
            return out
        new = self.children(n)
        self._check_shared(n, new)
        return self._by_one_thread(new)

    def _check_local(self, n: BufferStore) -> None:
        depth = self.depth.get(n.buffer, 0)
        if depth < len(self.active):
            tag = self.active[-1]
            raise LowerError(
                f"a kernel in which each step of a loop bound to {tag} changes {n.buffer.name}",
                f"{n.buffer.name} is {n.buffer.storage_scope} and was made outside that loop, so "
                "each thread has its own: what the threads write would not come together",
                "bind an axis of the data instead of a reduction axis, or rfactor the reduction",
            )

    def _check_shared(self, old: BufferStore, new: BufferStore) -> None:
        """Refuse several threads that add to one element."""
        at = set().union(*(variables(i) for i in new.indices)) if new.indices else set()
        for tag in self._sharing(new.buffer, dict.fromkeys(self.active)):
            thread = self.threads.variables[tag]
            own = thread in at or thread in self.chosen
            if not own and self._sources(new.value) & {thread, new.buffer}:
                raise _no_order(
                    f"a kernel in which all threads of {tag} write one element of {old.buffer.name}"
                )
        if new.buffer in self._sources(new.value) and len(new.indices) == 1:
            self._check_overlap(new)

    def _check_overlap(self, n: BufferStore) -> None:
        """Refuse threads whose sums have elements in common."""
        tags = self._sharing(n.buffer, dict.fromkeys(self.active))
        threads = {self.threads.variables[t] for t in tags} - self.chosen
        index = n.indices[0].base if isinstance(n.indices[0], Ramp) else n.indices[0]
        derived = [v for v in self.origin if isinstance(v, Var)]
        shared = [self.threads.variables[t] for t in self.active if t not in tags]
        found = overlapping(index, self.spans, threads, self.conditions, derived, shared)
        if found is not None:
            name = n.buffer.name
            raise LowerError(
                f"a kernel in which each step of the loop bound to {found.name} sums into its part "
                f"of {name}",
                f"the parts overlap: at {name}[{self.text(index)}] several threads would add to "
                "one element at the same time",
                f"leave {name} out of the arguments, so that each has its own; compute it at the "
                f'root; or sum into s.cache_write({name}, "local"), which is stored once',
            )

    def _let(self, n: LetStmt) -> Stmt:
        value = self(n.value)
        self.origin[n.var] = self._sources(value)
        body = self(n.body)
        chosen = self._chosen_thread(body)
        if chosen is not None:  # others would read while it stores
            out = IfThenElse(chosen.condition, LetStmt(n.var, value, without_condition(body)))
            self.by_one[id(out)] = out, self.by_one[id(chosen)][1]
            return out
        return changed(n, value=value, body=body)

    def _chosen_thread(self, n: Stmt) -> IfThenElse | None:
        """The first of statements all of which the same one thread runs."""
        found = [self.by_one.get(id(x)) for x in (n.seq if isinstance(n, SeqStmt) else (n,))]
        tags = {None if x is None else x[1] for x in found}
        return None if None in tags or len(tags) > 1 else found[0][0]  # type: ignore[index]

    def _if(self, n: IfThenElse) -> Stmt:
        condition = self(n.condition)
        before = self.chosen
        self.chosen = before | pinned(condition, set(self.threads.variables.values())).keys()
        then = self._within(condition, n.then_case)
        self.chosen = before
        other = None if n.else_case is None else self._within(negated(condition), n.else_case)
        return changed(n, condition=condition, then_case=then, else_case=other)

    def _sources(self, value: PrimExpr) -> set[Var | Buffer]:
        """The variables and the buffers that a value is made of, by way of others, too."""
        nodes = nodes_of(value, BufferLoad, Var)
        keys = {n if isinstance(n, Var) else n.buffer for n in nodes}
        return keys.union(*(self.origin.get(key, ()) for key in keys))

    def _by_one_thread(self, store: BufferStore) -> Stmt:
        """A store outside the loops of some tag happens once: the first thread does it."""
        outside = [t for t in self.threads.variables if t not in self.active]
        missing = self._sharing(store.buffer, outside)
        if not missing:
            return store
        tests = [ops.compare(EQ, self.threads.variables[t], 0) for t in missing]
        out = IfThenElse(ops.all_of(*tests), store)
        self.by_one[id(out)] = out, tuple(missing)
        return out

    def _sharing(self, buffer: Buffer, tags: Iterable[str]) -> list[str]:
        """The tags, of several threads, that see the same ``buffer``: a block has shared memory."""
        alike = ""
        if buffer.storage_scope.startswith(("shared", "warp")):
            alike = "threadIdx.x" if buffer.storage_scope == "warp" else "threadIdx"
        several = (t for t in tags if not is_int(self.threads.extents[t], 1))
        return [t for t in several if t.startswith(alike)]


def check_reductions(body: Stmt) -> None:
    """Refuse loops over threads whose steps reduce into one element.

    Raises:
        LowerError: there is one.
    """

    for n in filter(is_thread_loop, nodes_of(body, For)):
        _check_reduction(n)


def _check_reduction(n: For) -> None:
    if n.annotations.get("reduction") and not is_int(n.extent, 1):
        raise _no_order(f"a kernel in which {n.var.name}, a reduction axis, is bound to {n.thread}")


def _no_order(request: str) -> LowerError:
    return LowerError(
        request,
        "a reduction over an axis that is bound to threads has no order there",
        "bind a reduction axis of constant extent to threadIdx, inside all axes of the data; or "
        "rfactor the reduction and sum the parts in an unbound loop",
    )
