"""From a lowered function to LLVM text: statements, parallel loops, the raw kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from whet.compiler.abi.checks import FIRST_ASSERT, MAX_ASSERT_VALUES
from whet.compiler.abi.entry import entry_function, returned_code
from whet.compiler.abi.layout import quoted
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.llvm.bodies import Written, buffers_of, statements
from whet.compiler.codegen.llvm.calls import evaluate
from whet.compiler.codegen.llvm.entry import repeat_text
from whet.compiler.codegen.llvm.expressions import Expressions
from whet.compiler.codegen.llvm.imports import IMPORT, imported, with_imports
from whet.compiler.codegen.llvm.indices import INDEX_TYPES, form_of
from whet.compiler.codegen.llvm.intrinsics import check_intrinsics
from whet.compiler.codegen.llvm.memory import Memory
from whet.compiler.codegen.llvm.scope import Scope, safe
from whet.compiler.codegen.llvm.stores import Stores
from whet.compiler.codegen.llvm.subnormals import DECLARATIONS, flushes, flushing
from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.conversions import HALF_SUPPORT
from whet.compiler.codegen.llvm.text.module import Module
from whet.compiler.codegen.symbols import entry_symbol
from whet.compiler.errors import CodegenError
from whet.compiler.target import Target
from whet.compiler.target.llvm_machine import machine_of
from whet.compiler.target.machine.processors import has_entries
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IntImm
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import (
    GRAIN,
    PARALLEL,
    UNROLLED,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from whet.compiler.tir.visit.rewrite import variables

# Unrolled loops of more statements than this are emitted as loops: the result is the same, and
# compile time stays in hand when a space holds absurd candidates.
MAX_UNROLLED = 4096

_FAILED = "failed:\n  %failure = load i32, ptr %code\n"


def module_text(mod: IRModule, target: Target) -> str:
    """The LLVM text of a module: for each function the raw kernel and its checked entry."""
    module = Module(target)
    written = Written()
    signatures = [complete_signature(func) for func in mod.functions.values()]
    for func, signature in zip(mod.functions.values(), signatures):
        if signature.asserts:
            values = f"[{MAX_ASSERT_VALUES} x i64]"
            name = f"@{signature.name}__assert_values"
            module.globals.append(f"{name} = global {values} zeroinitializer")
        mode = flushes(func, target)
        _Kernel(module, func, signature, written, flushes=mode).generate()
    if module.uses:
        check_intrinsics(tuple(module.uses), machine_of(target.canonical()))
    called = module.called
    entries = [
        entry_text(sig, entry_symbol(sig.name, called)) for sig in signatures if has_entries(target)
    ]
    body = "\n\n".join([*module.globals, *module.functions, *entries])
    known = {**called, **module.intrinsics}
    missing = [d for d in module.declared if d not in body and not _declares(d, known)]
    half = HALF_SUPPORT if not module.converts_half and " half" in body else ""
    declared = [*missing, *called.values(), *module.intrinsics.values()]
    text = body + "\n\n" + "\n".join([*declared, half]) + "\n"
    if not module.imports:
        return text
    return with_imports(text, module.imports, machine_of(target.canonical()))


def _declares(declaration: str, functions: dict[str, str]) -> bool:
    """True where a declaration is of one of some functions."""
    head, _, rest = declaration.partition("@")
    return head.startswith("declare ") and rest.partition("(")[0].strip('"') in functions


@functools.lru_cache(256)  # the candidates of a search have one signature
def entry_text(signature: KernelSignature, symbol: str) -> str:
    """LLVM text of a kernel's checked entry and of its timing loop, for every target.

    Args:
        signature: the kernel's parameters.
        symbol: the entry's name.
    """
    kernel = _Kernel(_any_module(), entry_function(signature), signature, Written())
    return kernel.entry(symbol) + repeat_text(signature)


@functools.cache
def _any_module() -> Module:
    return Module(Target("llvm").canonical())  # an entry needs nothing of it


class _Kernel:
    """One function: the kernel itself, or the body of one of its parallel loops.

    Args:
        module: takes the function.
        func: the kernel.
        signature: its parameters.
        written: the buffers that its statements write.
        part: the name of the parallel body.
        flushes: whether it runs in flush-to-zero mode.
        error: in a parallel body, where to say that the kernel failed.
    """

    def __init__(
        self,
        module: Module,
        func: PrimFunc,
        signature: KernelSignature,
        written: Written,
        part: str = "",
        flushes: bool = False,
    ) -> None:
        self.func = func
        self.signature = signature
        self.written = written
        self.part = part
        self.flushes = flushes
        self.parts = 0
        self.scope = scope = Scope(module, part or signature.name)
        self.out, self.env, self.scalars = scope.out, scope.env, scope.scalars
        self.out.may_overlap = func.may_overlap
        self.expressions = Expressions(scope)
        self.value, self.i64 = self.expressions.value, self.expressions.i64
        self.linear = self.expressions.linear
        self.stores = Stores(self.expressions)
        self.memory = Memory(scope, self.expressions.indices, self.statement, kept=not part)
        self._rules: dict[type[Stmt], Callable[[Any], None]] = {
            SeqStmt: self._sequence,
            For: self._loop,
            BufferStore: self.stores.store,
            IfThenElse: self._if,
            Allocate: self.memory.allocate,
            LetStmt: self._let,
            AssertStmt: self._assert,
            While: self._while,
            AttrStmt: self._attribute,
            DeclBuffer: self.memory.another_view,
            AllocateConst: self.memory.constant,
            Evaluate: self._evaluate,
        }

    def generate(self) -> None:
        """Add the raw kernel to the module."""
        params = []
        for k, given in enumerate(self.func.params):
            name, kind = f"%p{k}", "ptr" if self.func.may_overlap else "ptr noalias"
            if isinstance(given, Buffer):
                self.scope.place(given, name)
            else:
                kind = ty.memory_type(given.dtype)
                if given.dtype in INDEX_TYPES:
                    self.env[given] = form_of(self.expressions.indices.widened(name, given.dtype))
                elif given.dtype == "bool":
                    self.scalars[given] = self.out.op("icmp ne", kind, name, "0")
                else:
                    self.scalars[given] = name
            params.append(f"{kind} {name}")
        for v in self.func.attrs.get("symbols", ()):
            name = f"%s.{len(params)}"
            params.append(f"i64 {name}")
            self.env[v] = form_of(name)
        self.statement(self.func.body)
        head = f"i32 @{self.scope.name}__raw({', '.join(params)})"
        self._end("ret i32 0", head, "  ret i32 %failure")
        self.memory.release()

    def _end(self, leave: str, head: str, failed: str) -> None:
        """Add the function to the module; ``failed`` ends it where it ended early."""
        self.stores.fence()
        module = self.scope.module
        if self.flushes:
            begin, restore = flushing()
            for declaration in DECLARATIONS:
                module.declare(declaration)
            self.out.allocas += begin
            self.out.line(restore)
            failed = f"  {restore}\n{failed}"
        self.out.line(leave)
        text = self.out.text() + (f"\n{_FAILED}{failed}" if self.scope.fails else "")
        module.functions.append(f"define {head} {module.attributes} {{\n{text}\n}}")

    def entry(self, symbol: str) -> str:
        """The function as a kernel's checked entry, of this name."""
        self.env[self.func.params[1]] = form_of(self.out.cast("sext", "i32", "%n", "i64"))  # type: ignore[index]
        self.statement(self.func.body)
        # Without optimisation its code is made in two thirds of the time; it runs once a call.
        head = f"define i32 {quoted(symbol)}(ptr %args, i32 %n) noinline optnone"
        text = f"{self.out.text()}\n  unreachable\n{_FAILED}  ret i32 %failure"
        return f"\n{head} {{\n{text}\n}}\n"

    # statements

    def statement(self, n: Stmt) -> None:
        """Generate one statement."""
        rule = self._rules.get(type(n))
        if rule is None:
            raise CodegenError(
                f"generate LLVM code for {type(n).__name__}", "this node has no meaning there"
            )
        rule(n)

    def _sequence(self, n: SeqStmt) -> None:
        for part in n.seq:
            self.statement(part)

    def _let(self, n: LetStmt) -> None:
        self.expressions.bind(n.var, n.value)
        self.statement(n.body)

    def _attribute(self, n: AttrStmt) -> None:
        if n.key == IMPORT:
            self.out.module.imports[imported(n.value)] = None
        before = self.stores.past_caches
        self.stores.past_caches = self.stores.nontemporal(n)
        self.statement(n.body)
        self.stores.past_caches = before

    def _evaluate(self, n: Evaluate) -> None:
        if not isinstance(n.value, IntImm):
            evaluate(self.expressions, n.value)

    def _loop(self, n: For) -> None:
        begin, count = self.linear(n.min), self.linear(n.extent)
        if count.is_const:
            if count.const <= 0:
                return
            if n.kind == UNROLLED and count.const * statements(n.body) <= MAX_UNROLLED:
                for k in range(count.const):
                    self.env[n.var] = begin.shifted(k)
                    self.statement(n.body)
                del self.env[n.var]
                return
        if n.kind == PARALLEL and not self.part:
            self._parallel(n)
            return
        self._touch(n.body)
        with self.out.loop(
            self.i64(begin), self.i64(count), count.is_const, safe(n.var.name)
        ) as var:
            self.env[n.var] = form_of(var)
            self.statement(n.body)
        del self.env[n.var]
        self._touch(n.body)

    def _touch(self, body: Stmt) -> None:
        """Forget what was loaded from the buffers that a body writes."""
        for b in self.written.by(body):
            self.scope.touch(b)

    def _while(self, n: While) -> None:
        self._touch(n.body)
        with self.out.repeat() as leave_unless:
            leave_unless(self.value(n.condition))
            self.statement(n.body)
        self._touch(n.body)

    def _assert(self, n: AssertStmt) -> None:
        holds = self.value(n.condition)
        if holds != "true":
            number = self.signature.asserts.index(n.message)
            with self.out.branch(self.out.op("xor", "i1", holds, "true")):
                for k, value in enumerate(n.values):
                    wide = self.i64(self.linear(value))
                    cell = f"ptr @{self.signature.name}__assert_values, i64 {k}"
                    self.out.line(f"store i64 {wide}, ptr getelementptr (i64, {cell})")
                self.scope.fail(str(FIRST_ASSERT + number))
        self.statement(n.body)

    def _if(self, n: IfThenElse) -> None:
        c = self.value(n.condition)
        if c in ("true", "false"):
            taken = n.then_case if c == "true" else n.else_case
            if taken is not None:
                self.statement(taken)
            return
        code = returned_code(n)
        if code is not None:
            self.scope.fail(str(code), c)
            return
        with self.out.branch(c):
            self.statement(n.then_case)
        if n.else_case is not None:
            with self.out.branch(self.out.op("xor", "i1", c, "true")):
                self.statement(n.else_case)

    # parallel loops

    def _parallel(self, n: For) -> None:
        """The loop's body as a function of its own, handed to the thread pool."""
        part = f"{self.scope.name}_.part{self.parts}"
        body = _Kernel(
            self.scope.module, self.func, self.signature, self.written, part, self.flushes
        )
        body.out.define("%begin")
        self.parts += 1
        captured: dict[tuple[str, str], None] = {}  # type and value here

        def capture(kind: str, value: str) -> str:
            """The name that a value has inside the body."""
            if not value.startswith("%"):
                return value
            captured[kind, value] = None
            return f"%c{list(captured).index((kind, value))}"

        used = variables(n.body) | variables(n.min)
        for v, form in self.env.items():
            if v in used:
                body.env[v] = form.mapped(lambda value: form_of(capture("i64", value)))
        for v, value in self.scalars.items():
            if v in used:
                body.scalars[v] = capture(ty.type_of(v.dtype), value)
        for b in buffers_of(n.body):
            if id(b) in self.scope.pointers:
                body.scope.place(b, capture("ptr", self.scope.pointers[id(b)]))
        body.stores.past_caches = self.stores.past_caches
        error = capture("ptr", "%nomemory")
        if "  %nomemory = alloca i32" not in self.out.allocas:
            self.out.allocas.append("  %nomemory = alloca i32")
        ctx = self.out.slot(f"[{len(captured)} x i64]", "ctx", ", align 8")
        self.out.line("store i32 0, ptr %nomemory")
        for k, (kind, value) in enumerate(captured):
            p = self.out.offset(ctx, k, "i64")
            self.out.line(f"store {kind} {value}, ptr {p}")
            q = body.out.offset("%ctx", k, "i64")
            body.out.scopes[0].lines.append(f"  %c{k} = load {kind}, ptr {q}")
        body.run_part(n, error)
        self.stores.fence()
        self.scope.module.declare("declare void @whet_parallel_for(ptr, ptr, i64, i64)")
        steps = self.i64(self.linear(n.extent))
        hand_out = f"i64 {steps}, i64 {int(n.annotations.get(GRAIN, 0))}"
        self.out.line(f"call void @whet_parallel_for(ptr @{part}, ptr {ctx}, {hand_out})")
        self._touch(n.body)
        code = self.out.here("load i32, ptr %nomemory")
        with self.out.branch(self.out.here(f"icmp ne i32 {code}, 0")):
            self.scope.fail(code)

    def run_part(self, n: For, error: str) -> None:
        """Add the function that runs the steps from %begin to %end; ``error`` takes a failure."""
        count = self.out.here("sub i64 %end, %begin")
        start = self.linear(n.min)
        with self.out.loop("%begin", count, False, safe(n.var.name)) as var:
            self.env[n.var] = start + form_of(var)
            self.statement(n.body)
        failed = f"  store atomic i32 %failure, ptr {error} monotonic, align 4\n  ret void"
        self._end("ret void", f"internal void @{self.part}(i64 %begin, i64 %end, ptr %ctx)", failed)
