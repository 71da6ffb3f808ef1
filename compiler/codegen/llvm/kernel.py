"""From a lowered function to LLVM text: statements, parallel loops, the raw kernel."""

from __future__ import annotations

from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.llvm import types as ty
from whet.compiler.codegen.llvm.bodies import Written, buffers_of, statements
from whet.compiler.codegen.llvm.calls import evaluate
from whet.compiler.codegen.llvm.entry.checked_entry import (
    FIRST_ASSERT,
    MAX_ASSERT_VALUES,
    entry_text,
)
from whet.compiler.codegen.llvm.math.calls import MathCalls
from whet.compiler.codegen.llvm.memory import safe
from whet.compiler.codegen.llvm.stores import Stores
from whet.compiler.errors import CodegenError
from whet.compiler.target import Target
from whet.compiler.target.machine.processors import has_entries
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.rewrite import variables

# Unrolled loops of more statements than this are emitted as loops: the result is the same, and
# compile time stays in hand when a space holds absurd candidates.
MAX_UNROLLED = 4096


def module_text(mod: IRModule, target: Target) -> str:
    """The LLVM text of a module: for each function the raw kernel and its checked entry."""
    module = ModuleText(target)
    for func in mod.functions.values():
        module.add(func)
    return module.text()


class ModuleText:
    """The LLVM text of a module as it grows."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, None] = {}
        self.called: dict[str, str] = {}
        self.entries: list[KernelSignature] = []
        self.written = Written()
        self.math = MathCalls(target, self.declare, self.attributes())

    def declare(self, line: str) -> None:
        self.declared[line] = None

    def declare_extern(self, name: str, line: str) -> None:
        """Declare a function that a user calls; calls of other types need no other declaration."""
        self.called.setdefault(name, line)

    def _is_called(self, declaration: str) -> bool:
        """Whether a user's call declares the function, too."""
        head, _, rest = declaration.partition("@")
        return head.startswith("declare ") and rest.partition("(")[0].strip('"') in self.called

    def attributes(self) -> str:
        bits = 8 * self.target.vector_bytes
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    def add(self, func: PrimFunc) -> None:
        signature = complete_signature(func)
        if signature.asserts:
            values = f"[{MAX_ASSERT_VALUES} x i64]"
            name = f"@{signature.name}__assert_values"
            self.globals.append(f"{name} = global {values} zeroinitializer")
        _Kernel(self, func, signature).generate()
        if has_entries(self.target):
            self.entries.append(signature)

    def text(self) -> str:
        entries = [entry_text(signature, self.called) for signature in self.entries]
        parts = [*self.globals, *self.functions, *entries]
        body = "\n\n".join(parts)
        missing = [d for d in self.declared if d not in body and not self._is_called(d)]
        missing += self.called.values()
        missing.append(self.math.support(body))
        return body + "\n\n" + "\n".join(missing) + "\n"


class _Kernel(Stores):
    """One function: the kernel itself, or the body of one of its parallel loops."""

    def __init__(self, module: ModuleText, func: PrimFunc, signature: KernelSignature) -> None:
        super().__init__(module, signature.name)
        self.func = func
        self.signature = signature
        self.serial = 0

    def generate(self) -> None:
        params = []
        for k, (given, p) in enumerate(zip(self.func.params, self.signature.params)):
            if isinstance(given, Buffer):
                assert isinstance(p, BufferParam)
                params.append(f"ptr noalias %p{k}")
                self.place(given, f"%p{k}")
            elif given.dtype in ("int32", "int64"):
                params.append(f"{ty.type_of(given.dtype)} %p{k}")
                wide = f"%p{k}"
                if given.dtype == "int32":
                    wide = self.out.pure(f"sext i32 %p{k} to i64", wide)
                self.env[given] = (0, {wide: 1})
            else:
                kind = "i8" if given.dtype == "bool" else ty.type_of(given.dtype)
                params.append(f"{kind} %p{k}")
                value = f"%p{k}"
                if given.dtype == "bool":
                    value = self.out.pure(f"icmp ne i8 {value}, 0", value)
                self.scalars[given] = value
        for v in self.func.attrs.get("symbols", ()):
            params.append(f"i64 %s.{len(params)}")
            self.env[v] = (0, {params[-1].split()[1]: 1})
        self.statement(self.func.body)
        self.fence()
        self.out.line("ret i32 0")
        text = self.out.text()
        if self.fails:
            text += "\nfailed:\n  %failure = load i32, ptr %code\n  ret i32 %failure"
        head = f"define i32 @{self.name}__raw({', '.join(params)})"
        self.module.functions.append(f"{head} {self.module.attributes()} {{\n{text}\n}}")
        self.release()

    # statements

    def statement(self, n: s.Stmt) -> None:
        """Generate one statement."""
        if isinstance(n, s.SeqStmt):
            for part in n.seq:
                self.statement(part)
        elif isinstance(n, s.For):
            self._loop(n)
        elif isinstance(n, s.BufferStore):
            self.store(n)
        elif isinstance(n, s.IfThenElse):
            self._if(n)
        elif isinstance(n, s.Allocate):
            self.allocate(n)
        elif isinstance(n, s.LetStmt):
            self.bind(n.var, n.value)
            self.statement(n.body)
        elif isinstance(n, s.AssertStmt):
            self._assert(n)
        elif isinstance(n, s.While):
            self._while(n)
        elif isinstance(n, s.AttrStmt):
            self.attribute(n)
        elif isinstance(n, s.DeclBuffer):
            self.another_view(n)
        elif isinstance(n, s.AllocateConst):
            self.constant(n)
        elif isinstance(n, s.Evaluate):
            if not isinstance(n.value, e.IntImm):
                evaluate(self, n.value)
        else:
            raise CodegenError(
                f"generate LLVM code for {type(n).__name__}", "this node has no meaning there"
            )

    def _loop(self, n: s.For) -> None:
        begin, count = self.linear(n.min), self.linear(n.extent)
        if not count[1]:
            if count[0] <= 0:
                return
            if n.kind == s.UNROLLED and count[0] * statements(n.body) <= MAX_UNROLLED:
                for k in range(count[0]):
                    self.env[n.var] = (begin[0] + k, begin[1])
                    self.statement(n.body)
                del self.env[n.var]
                return
        if n.kind == s.PARALLEL and self.error is None:
            self._parallel(n)
            return
        written = self.module.written.by(n.body)
        for b in written:
            self.touch(b)
        known = not count[1]
        start, steps = self.i64(begin), self.i64(count)
        with self.out.loop(start, steps, known, safe(n.var.name)) as var:
            self.env[n.var] = (0, {var: 1})
            self.statement(n.body)
        del self.env[n.var]
        for b in written:
            self.touch(b)

    def _while(self, n: s.While) -> None:
        written = self.module.written.by(n.body)
        for b in written:
            self.touch(b)
        with self.out.repeat() as leave_unless:
            leave_unless(self.value(n.condition))
            self.statement(n.body)
        for b in written:
            self.touch(b)

    def _assert(self, n: s.AssertStmt) -> None:
        holds = self.value(n.condition)
        if holds != "true":
            number = self.signature.asserts.index(n.message)
            with self.out.branch(self.out.pure(f"xor i1 {holds}, true", holds)):
                for k, value in enumerate(n.values):
                    wide = self.i64(self.linear(value))
                    cell = f"ptr @{self.signature.name}__assert_values, i64 {k}"
                    self.out.line(f"store i64 {wide}, ptr getelementptr (i64, {cell})")
                self.fail(str(FIRST_ASSERT + number))
        self.statement(n.body)

    def _if(self, n: s.IfThenElse) -> None:
        c = self.value(n.condition)
        if c in ("true", "false"):
            if c == "true":
                self.statement(n.then_case)
            elif n.else_case is not None:
                self.statement(n.else_case)
            return
        with self.out.branch(c):
            self.statement(n.then_case)
        if n.else_case is not None:
            opposite = self.out.pure(f"xor i1 {c}, true", c)
            with self.out.branch(opposite):
                self.statement(n.else_case)

    # parallel loops

    def _parallel(self, n: s.For) -> None:
        """The loop's body as a function of its own, handed to the thread pool."""
        body = _Kernel(self.module, self.func, self.signature)
        body.name = f"{self.name}_.part{self.serial}"
        body.out.define("%begin")
        self.serial += 1
        captured: list[tuple[str, str]] = []  # type and value here
        used_vars = variables(n.body) | variables(n.min)
        for v in (*self.env, *self.scalars):
            if v not in used_vars:
                continue
            if v in self.env:
                const, terms = self.env[v]
                renamed = {}
                for value, coef in terms.items():
                    renamed[_capture(captured, "i64", value)] = coef
                body.env[v] = (const, renamed)
            elif v in self.scalars:
                kind = ty.type_of(v.dtype)
                body.scalars[v] = _capture(captured, kind, self.scalars[v])
        for b in buffers_of(n.body):
            if id(b) in self.pointers:
                body.place(b, _capture(captured, "ptr", self.pointers[id(b)]))
        body.past_caches = self.past_caches
        body.error = _capture(captured, "ptr", "%nomemory")
        if "  %nomemory = alloca i32" not in self.out.allocas:
            self.out.allocas.append("  %nomemory = alloca i32")
        ctx = self.out.fresh("ctx")
        self.out.allocas.append(f"  {ctx} = alloca [{len(captured)} x i64], align 8")
        self.out.line("store i32 0, ptr %nomemory")
        for k, (kind, value) in enumerate(captured):
            p = self.out.pure(f"getelementptr i64, ptr {ctx}, i64 {k}")
            self.out.line(f"store {kind} {value}, ptr {p}")
            q = body.out.pure(f"getelementptr i64, ptr %ctx, i64 {k}")
            body.out.scopes[0].lines.append(f"  %c{k} = load {kind}, ptr {q}")
        body._part(n)
        self.fence()
        self.declare("declare void @whet_parallel_for(ptr, ptr, i64, i64)")
        steps = self.i64(self.linear(n.extent))
        hand_out = f"i64 {steps}, i64 {int(n.annotations.get(s.GRAIN, 0))}"
        self.out.line(f"call void @whet_parallel_for(ptr @{body.name}, ptr {ctx}, {hand_out})")
        for b in self.module.written.by(n.body):
            self.touch(b)
        code = self.out.here("load i32, ptr %nomemory")
        with self.out.branch(self.out.here(f"icmp ne i32 {code}, 0")):
            self.fail(code)

    def _part(self, n: s.For) -> None:
        """The function that runs the steps from %begin to %end."""
        count = self.out.here("sub i64 %end, %begin")
        start = self.linear(n.min)
        with self.out.loop("%begin", count, False, safe(n.var.name)) as var:
            terms = dict(start[1])
            terms[var] = terms.get(var, 0) + 1
            self.env[n.var] = (start[0], terms)
            self.statement(n.body)
        self.fence()
        self.out.line("ret void")
        text = self.out.text()
        if self.fails:
            text += "\nfailed:\n  %failure = load i32, ptr %code\n"
            text += f"  store atomic i32 %failure, ptr {self.error} monotonic, align 4\n  ret void"
        head = f"define internal void @{self.name}(i64 %begin, i64 %end, ptr %ctx)"
        self.module.functions.append(f"{head} {self.module.attributes()} {{\n{text}\n}}")


def _capture(captured: list[tuple[str, str]], kind: str, value: str) -> str:
    """The name that a value has inside a parallel body."""
    if not value.startswith("%"):
        return value
    if (kind, value) not in captured:
        captured.append((kind, value))
    return f"%c{captured.index((kind, value))}"
