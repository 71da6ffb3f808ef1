"""Memory of a kernel: registers, the stack, the heap, constants; and how it ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.calls import CALLS
from whet.compiler.codegen.llvm.entry.checked_entry import NO_MEMORY
from whet.compiler.codegen.llvm.expressions import Expressions
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.kernel import ModuleText

# A buffer of at most so many bytes lives on the stack, where SROA may make registers of it.
STACK_BYTES = 64 * 1024
# One of at most so many may be in registers, each step of an unrolled loop in its own.
REGISTER_BYTES = 4096


class Memory(Expressions):
    """Places buffers for a function that is being written."""

    def __init__(self, module: ModuleText, name: str) -> None:
        super().__init__(module.declare)
        self.math = module.math
        self.module = module
        self.name = name
        self.slots: list[str] = []  # workspaces kept between calls
        self.error: str | None = None  # in a parallel body: where to say that the kernel failed
        self.stack: dict[int, str] = {}  # buffer's id -> its memory, for those no register holds
        self.held: list[str] = []  # memory from the heap that is in use here
        self.fails = False  # whether the kernel can end early

    def statement(self, n: s.Stmt) -> None:
        """Generate one statement."""
        raise NotImplementedError

    def _call(self, n: e.Call) -> str:
        outside = CALLS.get(n.op)
        return super()._call(n) if outside is None else outside(self, n)

    def allocate(self, n: s.Allocate) -> None:
        b = n.buffer
        const, terms = 1, False
        sizes = [self.linear(d) for d in b.shape]
        for c, t in sizes:
            const, terms = const * c, terms or bool(t)
        element, item = ty.memory_type(b.dtype), dt.itemsize(b.dtype)
        if not terms and const * item <= STACK_BYTES:
            name = self.stack.get(id(b))
            if name is None:
                name = self.out.fresh(safe(b.name) + ".")
                self.out.allocas.append(
                    f"  {name} = alloca [{max(const, 1)} x {element}], align 64"
                )
                if const * item > REGISTER_BYTES:  # steps of an unrolled loop share it
                    self.stack[id(b)] = name
            self.place(b, name)
            self.statement(n.body)
            return
        count = "1"
        for lin in sizes:
            part = self.i64(lin)
            count = part if count == "1" else self.out.pure(f"mul i64 {count}, {part}", count, part)
        if not terms:
            count = str(const)
            size = str(-(-const * item // 64) * 64)
        else:
            exact = self.out.pure(f"mul i64 {count}, {item}", count)
            more = self.out.pure(f"add i64 {exact}, 127", exact)
            size = self.out.pure(f"and i64 {more}, -64", more)
        self._heap(n, size, keep=not terms and self.error is None)

    def _heap(self, n: s.Allocate, size: str, keep: bool) -> None:
        """Memory from the heap; of a constant size it is kept from call to call.

        Fresh pages cost a page fault each, a millisecond for 4 MiB. One call at a time finds the
        kept block in its slot; another that runs beside it allocates its own.
        """
        self.declare("declare ptr @aligned_alloc(i64, i64)")
        self.declare("declare void @free(ptr)")
        out = self.out
        slot = ""
        cell = out.fresh("cell")
        out.allocas.append(f"  {cell} = alloca ptr")
        if keep:
            slot = f"@{self.name}_.work{len(self.slots)}"
            self.slots.append(slot)
            self.module.globals.append(f"{slot} = internal global ptr null")
            kept = out.here(f"atomicrmw xchg ptr {slot}, ptr null acq_rel")
            out.line(f"store ptr {kept}, ptr {cell}")
            none = out.here(f"icmp eq ptr {kept}, null")
            with out.branch(none):
                new = out.here(f"call ptr @aligned_alloc(i64 64, i64 {size})")
                out.line(f"store ptr {new}, ptr {cell}")
        else:
            new = out.here(f"call ptr @aligned_alloc(i64 64, i64 {size})")
            out.line(f"store ptr {new}, ptr {cell}")
        p = out.here(f"load ptr, ptr {cell}")
        failed = out.here(f"icmp eq ptr {p}, null")
        with out.branch(failed):
            self.fail(str(NO_MEMORY))
        self.place(n.buffer, p)
        self.held.append(p)
        self.statement(n.body)
        self.held.pop()
        if keep:
            other = out.here(f"atomicrmw xchg ptr {slot}, ptr {p} acq_rel")
            out.line(f"call void @free(ptr {other})")
        else:
            out.line(f"call void @free(ptr {p})")

    def fail(self, code: str) -> None:
        """End the kernel with a result, here."""
        if not self.fails:
            self.fails = True
            self.out.allocas.append("  %code = alloca i32")
        for p in self.held:
            self.out.line(f"call void @free(ptr {p})")
        self.out.flush()
        never = self.out.label("never")
        scope = self.out.scopes[-1]
        scope.lines += [f"  store i32 {code}, ptr %code", "  br label %failed", f"{never}:"]
        scope.label = never

    def another_view(self, n: s.DeclBuffer) -> None:
        """Another view of memory that a buffer with the same ``data`` has."""
        for b, pointer in self.memory:
            if b.data is n.buffer.data:
                self.pointers[id(n.buffer)] = pointer
                self.statement(n.body)
                return
        raise CodegenError(
            f"declare the buffer {n.buffer.name}",
            f"nothing allocates the memory of {n.buffer.data.name}",
            "give it the data of a parameter or of an allocated buffer",
        )

    def constant(self, n: s.AllocateConst) -> None:
        """A global that holds the bytes of an array."""
        data = np.ascontiguousarray(n.data)
        name = f"@{self.name}_.const{len(self.module.globals)}"
        text = "".join(f"\\{byte:02X}" for byte in data.tobytes())
        size = data.nbytes
        self.module.globals.append(
            f'{name} = internal constant [{size} x i8] c"{text}", align 64'
            if size
            else f"{name} = internal constant [1 x i8] zeroinitializer, align 64"
        )
        self.place(n.buffer, name)
        self.statement(n.body)

    def touch(self, b: Buffer) -> None:
        if id(b) in self.pointers:
            self.out.touched(self.pointers[id(b)])

    def release(self) -> None:
        """A function that gives kept workspaces back, for when the code is unloaded."""
        self.declare("declare void @free(ptr)")
        lines = [f"define void @{self.name}__release() nounwind {{"]
        for k, slot in enumerate(self.slots):
            lines.append(f"  %w{k} = atomicrmw xchg ptr {slot}, ptr null acq_rel")
            lines.append(f"  call void @free(ptr %w{k})")
        self.module.functions.append("\n".join([*lines, "  ret void", "}"]))


def safe(name: str) -> str:
    """A name as a part of LLVM's names."""
    text = "".join(c if (c.isascii() and c.isalnum()) or c in "._" else "_" for c in name)
    return f"v{text}" if text[:1].isdigit() else text
