"""Memory of a kernel: registers, the stack, the heap, constants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from whet.compiler.abi.checks import NO_MEMORY
from whet.compiler.codegen.llvm.indices import Indices
from whet.compiler.codegen.llvm.scope import Scope, safe
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.outside import no_memory
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.stmt import Allocate, AllocateConst, DeclBuffer, Stmt

# A buffer of at most so many bytes lives on the stack, where SROA may make registers of it.
STACK_BYTES = 64 * 1024
# One of at most so many may be in registers, each step of an unrolled loop in its own.
REGISTER_BYTES = 4096


class Memory:
    """Places the buffers of a function.

    Args:
        scope: of the function.
        indices: writes extents.
        statement: writes what has the buffers.
        kept: workspaces may be kept between calls.
    """

    def __init__(
        self, scope: Scope, indices: Indices, statement: Callable[[Stmt], None], kept: bool
    ) -> None:
        self.scope, self.out, self.indices = scope, scope.out, indices
        self._statement = statement
        self._kept = kept
        self._slots: list[str] = []  # workspaces kept between calls
        self._stack: dict[int, str] = {}  # buffer's id -> its memory, for those no register holds

    def allocate(self, n: Allocate) -> None:
        """A buffer on the stack, where its size is known and small, or the heap."""
        b, out = n.buffer, self.out
        sizes = [self.indices.linear(d) for d in b.shape]
        const, known = math.prod(x.const for x in sizes), all(x.is_const for x in sizes)
        item = dt.itemsize(b.dtype)
        if known and const * item <= STACK_BYTES:
            name = self._stack.get(id(b))
            if name is None:
                array = f"[{max(const, 1)} x {ty.memory_type(b.dtype)}]"
                name = out.slot(array, safe(b.name) + ".", ", align 64")
                if const * item > REGISTER_BYTES:  # steps of an unrolled loop share it
                    self._stack[id(b)] = name
            self.scope.place(b, name)
            self._statement(n.body)
            return
        count = "1"
        for form in sizes:
            part = self.indices.i64(form)
            count = part if count == "1" else out.op("mul", "i64", count, part)
        size = str(-(-const * item // 64) * 64)
        if not known:
            more = out.op("add", "i64", out.op("mul", "i64", count, str(item)), "127")
            size = out.op("and", "i64", more, "-64")
        self._heap(n, size, known and self._kept)

    def _heap(self, n: Allocate, size: str, keep: bool) -> None:
        """Memory from the heap; of a constant size it is kept from call to call.

        Fresh pages cost a page fault each, a millisecond for 4 MiB. One call at a time finds the
        kept block in its slot; another that runs beside it allocates its own.
        """
        out, module, slot = self.out, self.scope.module, ""
        module.declare("declare ptr @aligned_alloc(i64, i64)")
        module.declare("declare void @free(ptr)")
        cell = out.slot("ptr", "cell")

        def allocated() -> None:
            new = out.here(f"call ptr @aligned_alloc(i64 64, i64 {size})")
            out.line(f"store ptr {new}, ptr {cell}")

        if keep:
            slot = f"@{self.scope.name}_.work{len(self._slots)}"
            self._slots.append(slot)
            module.globals.append(f"{slot} = internal global ptr null")
            kept = out.here(f"atomicrmw xchg ptr {slot}, ptr null acq_rel")
            out.line(f"store ptr {kept}, ptr {cell}")
            with out.branch(out.here(f"icmp eq ptr {kept}, null")):
                allocated()
        else:
            allocated()
        p = out.here(f"load ptr, ptr {cell}")
        with out.branch(out.here(f"icmp eq ptr {p}, null")):
            self.scope.fail(str(NO_MEMORY))
        self.scope.place(n.buffer, p)
        self.scope.held.append(p)
        self._statement(n.body)
        self.scope.held.pop()
        freed = out.here(f"atomicrmw xchg ptr {slot}, ptr {p} acq_rel") if keep else p
        out.line(f"call void @free(ptr {freed})")

    def another_view(self, n: DeclBuffer) -> None:
        """Another view of memory that a buffer with the same ``data`` has."""
        pointer = next((p for b, p in self.scope.memory if b.data is n.buffer.data), None)
        if pointer is None:
            raise no_memory(n.buffer)
        self.scope.pointers[id(n.buffer)] = pointer
        self._statement(n.body)

    def constant(self, n: AllocateConst) -> None:
        """A global that holds the bytes of an array."""
        data = np.ascontiguousarray(n.data).tobytes()
        name = self.scope.module.constant(f"{self.scope.name}_.const", data, ", align 64")
        self.scope.place(n.buffer, name)
        self._statement(n.body)

    def release(self) -> None:
        """A function that gives kept workspaces back, for when the code is unloaded."""
        self.scope.module.declare("declare void @free(ptr)")
        lines = [f"define void @{self.scope.name}__release() nounwind {{"]
        for k, slot in enumerate(self._slots):
            lines.append(f"  %w{k} = atomicrmw xchg ptr {slot}, ptr null acq_rel")
            lines.append(f"  call void @free(ptr %w{k})")
        self.scope.module.functions.append("\n".join([*lines, "  ret void", "}"]))
