"""From lowered functions to one C99 source text: the raw kernels and what stands around them."""

from __future__ import annotations

import re

from whet.compiler.abi.checks import FIRST_ASSERT, MAX_ASSERT_VALUES, NO_MEMORY
from whet.compiler.abi.entry import RETURN, entry_function
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.c.calls import TENSOR, call_out
from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.entry import entry_text
from whet.compiler.codegen.c.expressions import Expressions
from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.c.names import identifier
from whet.compiler.codegen.c.precedence import Text
from whet.compiler.codegen.c.scope import Scope
from whet.compiler.codegen.c.statements import (
    STACK_BYTES,
    Statements,
    initializer,
    shape_text,
    written_memory,
)
from whet.compiler.codegen.constants import count_of
from whet.compiler.codegen.outside import EXTERNS
from whet.compiler.errors import CodegenError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    BufferLoad,
    BufferView,
    Call,
    IntImm,
    Mul,
    Not,
    PrimExpr,
    StringImm,
    Var,
)
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import Allocate, AllocateConst, AssertStmt, Evaluate, Stmt
from whet.compiler.tir.visit.rewrite import nodes_of

_HEAD = """/* Made by Whet. Portable C99: cc -std=c99 -O2 -fPIC -ffp-contract=off -c */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
"""


def source(mod: IRModule) -> str:
    """The C text of a module: for each function the raw kernel, its checked entry and its loop.

    Raises:
        CodegenError: a function is not lowered, or holds what C99 cannot say.
    """
    dialect = Dialect()
    use = Functions(dialect)
    kernels: list[str] = []
    outside: dict[str, None] = {}
    called: dict[str, str] = {}
    signatures = [complete_signature(func) for func in mod.functions.values()]
    for func, signature in zip(mod.functions.values(), signatures):
        kernel = CKernel(dialect, use, func, signature)
        kernels.append(kernel.kernel_text())
        outside |= kernel.declared
        called = kernel.externs | called
    entries = [
        entry_text(CKernel(dialect, use, entry_function(sig), sig), called) for sig in signatures
    ]
    if any(sig.params for sig in signatures):
        outside = {TENSOR: None, **outside}
    outside.update(dict.fromkeys(called.values()))
    parts = [_HEAD, "\n".join(outside), use.text(), *kernels, *entries]
    return "\n\n".join(p.strip("\n") for p in parts if p.strip()) + "\n"


class CKernel:
    """One kernel: ``int32_t name__raw(pointers and scalars..., int64_t symbols...)``.

    Attributes:
        scope: its lines and names; ``expressions`` and ``statements`` write into it.
        declared: declarations outside of the kernel.
        externs: C functions that are called, and their declarations.
        held: memory from the heap that is in use at the present line.
    """

    def __init__(
        self, dialect: Dialect, use: Functions, func: PrimFunc, signature: KernelSignature
    ) -> None:
        self.scope = scope = Scope(dialect, use)
        self.expressions = Expressions(scope, self.intrinsic)
        self.statements = Statements(scope, self.expressions)
        self.statements.rules |= {
            Allocate: self.allocate,
            AllocateConst: self.constants,
            AssertStmt: self.check,
            Evaluate: self.evaluate,
        }
        self.d, self.use, self.names, self.line = dialect, use, scope.names, scope.line
        self.values, self.memory, self.pointer = scope.values, scope.memory, scope.pointer
        self.value, self.index = self.expressions.value, self.expressions.index
        self.func = func
        self.signature = signature
        self.name = signature.name
        self.globals: list[str] = []
        self.declared: dict[str, None] = {}
        self.externs: dict[str, str] = {}
        called = [n.args[0] for n in nodes_of(func.body, Call) if n.op in EXTERNS and n.args]
        self.names.avoid(x.value for x in called if isinstance(x, StringImm))
        self.held: list[str] = []
        if signature.asserts:
            self.globals.append(f"int64_t {self.name}__assert_values[{MAX_ASSERT_VALUES}];")

    def kernel_text(self) -> str:
        """The kernel, and the global arrays that it needs before it."""
        params = self.params()
        self.statements.statement(self.func.body)
        self.line("return 0;")
        body = "\n".join(self.scope.lines)
        unused = [f"    (void){p};" for p in self._unused(params, body)]
        head = f"int32_t {self.name}__raw({', '.join(params) or 'void'})"
        kernel = [f"{head};", head, "{", *unused, body, "}"]
        return "\n".join([*self.globals, self._comment(), *kernel])

    def intrinsic(self, n: Call) -> Text | None:
        """The call of what the kernel's surroundings provide; None for another function."""
        return call_out(self, n)

    def params(self) -> list[str]:
        """The kernel's parameters; what they stand for is known from now on."""
        written = written_memory(self.func.body)
        params: list[str] = []
        for given in self.func.params:
            name, kind, dtype = self.names.of(given), self.d.memory_type(given.dtype), given.dtype
            if isinstance(given, Buffer):
                const = "" if id(given.data) in written else "const "
                pointer = "{kind} *{name}" if self.func.may_overlap else self.d.pointer
                params.append(pointer.format(kind=const + kind, name=name))
                self.scope.place(given, name)
                continue
            if dtype == "float16" and not self.d.native_short:
                raise CodegenError(
                    f"C code for {self.name}: the argument {given.name}",
                    f"C99 cannot pass a number of type {dtype}",
                    "pass float32, or an array with one element",
                )
            params.append(f"{kind} {name}")
            if dtype in ("int32", "int64"):
                self.scope.integers[given] = dt.bits(dtype) >= self.d.index_bits
            elif dtype == "bool" and kind != "bool":
                self.values[given] = f"({name} != 0)"
            else:
                self.values[given] = self.d.load(name, dtype, self.use)
        for v in self.func.attrs.get("symbols", ()):
            params.append(f"int64_t {self.names.of(v)}")
            self.scope.integers[v] = True
        return params

    def _unused(self, params: list[str], body: str) -> list[str]:
        words = set(re.findall(r"\w+", body))
        names = [p.split()[-1].lstrip("*") for p in params]
        return [n for n in names if n not in words]

    def _comment(self) -> str:
        """A comment that describes the parameters."""
        lines = [f"/* {self.signature.name}"]
        for given, p in zip(self.func.params, self.signature.params):
            text = p.dtype
            if isinstance(p, BufferParam):
                text += f"[{', '.join(map(str, p.shape))}]" + (", written" if p.written else "")
            lines.append(f" *   {self.names.of(given)}: {text}")
        for v in self.func.attrs.get("symbols", ()):
            lines.append(f" *   {self.names.of(v)}: a dimension")
        return "\n".join([*lines, " */"])

    # memory

    def allocate(self, n: Allocate) -> None:
        b = n.buffer
        name = self.names.new(b)
        kind = self.d.memory_type(b.dtype)
        count = count_of(b.shape)
        if count is not None and count * dt.itemsize(b.dtype) <= STACK_BYTES:
            self.line(f"{kind} {name}[{max(count, 1)}];  /* {shape_text(b)} */")
            self._inside(n, name)
            return
        size = " * ".join(self._size(d) for d in b.shape) or "(size_t)1"
        self.line(f"{kind} *restrict {name} = malloc({size} * sizeof *{name} + 1);")
        self.leave_if(f"{name} == NULL", str(NO_MEMORY), shape_text(b))
        self.held.append(name)
        self._inside(n, name)
        self.held.pop()
        self.line(f"free({name});")

    def _size(self, d: PrimExpr) -> str:
        """An extent as a factor of a size; one that is computed may be negative where it is 0."""
        if _is_product(d):
            return f"(size_t){self.index(d, 14)}"
        return f"(size_t){self.use.get('max', 'int64')}({self.index(d)}, 0)"

    def _inside(self, n: Allocate, name: str) -> None:
        self.scope.place(n.buffer, name)
        start = len(self.scope.lines)
        self.statements.statement(n.body)
        if not _is_read(n.body, n.buffer):
            self.scope.lines.insert(start, "    " * self.scope.depth + f"(void){name};")

    def leave(self, code: str) -> None:
        """End the kernel with a result, here."""
        for name in reversed(self.held):
            self.line(f"free({name});")
        self.line(f"return {code};")

    def leave_if(self, test: str, code: str, comment: str = "") -> None:
        """End the kernel with a result where a test holds."""
        self.line(f"if ({test}) {{" + (f"  /* {comment} */" if comment else ""))
        with self.scope.block():
            self.leave(code)
        self.line("}")

    def constants(self, n: AllocateConst) -> None:
        """Write a buffer of constants beside the kernel."""
        b = n.buffer
        name = self.names.new(b, f"{self.name}_{identifier(b.name)}")
        kind, array = self.d.memory_type(b.dtype), initializer(b, n.data, self.d)
        self.globals.append(f"static const {kind} {name}{array};")
        self.scope.place(b, name)
        self.statements.statement(n.body)

    # statements that end a kernel early, and calls

    def check(self, n: AssertStmt) -> None:
        """An assertion: its values are kept, and the kernel returns its number."""
        self.expressions.begin(n.condition)
        test = self.value(Not(n.condition))
        self.line(f"if ({test}) {{  /* {comment_text(n.message)} */")
        with self.scope.block():
            for k, v in enumerate(n.values):
                self.line(f"{self.name}__assert_values[{k}] = {self.index(v)};")
            self.leave(str(FIRST_ASSERT + self.signature.asserts.index(n.message)))
        self.line("}")
        with self.scope.analyzer.assuming(n.condition):
            self.statements.statement(n.body)

    def evaluate(self, n: Evaluate) -> None:
        """Write an expression for its effects; the result of a packed function is ignored."""
        if isinstance(n.value, Call) and n.value.op == "call_packed":
            self.expressions.begin(n.value)
            call_out(self, n.value, used=False)
        elif isinstance(n.value, Call) and n.value.op == RETURN:
            self.expressions.begin(n.value)
            call_out(self, n.value)
        else:
            self.statements.evaluate(n)


def _is_product(d: PrimExpr) -> bool:
    """True if an extent is a product of sizes, which is never negative."""
    if isinstance(d, Mul):
        return _is_product(d.a) and _is_product(d.b)
    return isinstance(d, (Var, IntImm))


def _is_read(body: Stmt, buffer: Buffer) -> bool:
    reads = nodes_of(body, BufferLoad, BufferView)
    return any(n.buffer.data is buffer.data for n in reads)


def comment_text(text: str) -> str:
    """A text that can stand in a comment: on one line, and ending none."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split())
