"""The state that the writers of one function share: its text, and where values and memory are."""

from __future__ import annotations

from whet.compiler.arith import Affine
from whet.compiler.codegen.llvm.text.module import Module
from whet.compiler.codegen.llvm.text.writer import FunctionWriter
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Var


class Scope:
    """Values and memory of one function.

    Attributes:
        module: that the function is part of.
        name: the function's.
        out: its text.
        env: variable -> its value as a form of i64 values; a number for a step of an unrolled loop.
        scalars: variable -> value, for arguments that are no indices.
        pointers: buffer's id -> its pointer value.
        memory: every buffer that was placed, with its pointer.
        held: memory from the heap that is in use here.
        fails: the function can end early.
    """

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        self.out = FunctionWriter(module)
        self.env: dict[Var, Affine] = {}
        self.scalars: dict[Var, str] = {}
        self.pointers: dict[int, str] = {}
        self.memory: list[tuple[Buffer, str]] = []
        self.held: list[str] = []
        self.fails = False

    def place(self, buffer: Buffer, pointer: str) -> None:
        """Say where a buffer's elements stand."""
        self.pointers[id(buffer)] = pointer
        self.memory.append((buffer, pointer))

    def touch(self, b: Buffer) -> None:
        """Forget what was loaded from a buffer: it is written now."""
        if id(b) in self.pointers:
            self.out.touched(self.pointers[id(b)])

    def fail(self, code: str, condition: str = "") -> None:
        """End the function with a result here, or where a condition holds; that frees nothing."""
        if not self.fails:
            self.fails = True
            self.out.allocas.append("  %code = alloca i32")
        for p in self.held:
            self.out.line(f"call void @free(ptr {p})")
        self.out.flush()
        never = self.out.label("never")
        scope = self.out.scopes[-1]
        leave = f"i1 {condition}, label %failed, label %{never}" if condition else "label %failed"
        scope.lines += [f"  store i32 {code}, ptr %code", f"  br {leave}", f"{never}:"]
        scope.label = never


def safe(name: str) -> str:
    """A name as a part of LLVM's names."""
    text = "".join(c if (c.isascii() and c.isalnum()) or c in "._" else "_" for c in name)
    return f"v{text}" if text[:1].isdigit() else text
