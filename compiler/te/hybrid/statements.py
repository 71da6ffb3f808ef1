"""Statements of a script: from Python's syntax to loop IR, one statement after the other."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.hybrid.arrays import (
    ALLOCATED,
    INPUT,
    OUTPUT,
    Array,
    Loop,
    NewArray,
    Part,
    Scalar,
)
from whet.compiler.te.hybrid.calls import CONST
from whet.compiler.te.hybrid.expressions import Expressions, operated, reads_memory
from whet.compiler.te.hybrid.program import (
    Program,
    as_read,
    loop_value,
    outside,
    placed,
    wrapped,
)
from whet.compiler.te.hybrid.source import Source, source_of
from whet.compiler.te.lang.scopes import TAGS
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import THREAD_INDEX, IterVar, PrimExpr, Range, Var
from whet.compiler.tir.ir_builder import Rest
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import Allocate, AssertStmt, BufferStore

_NUMBERS = (PrimExpr, int, float)
_DEEPEST = 32


class Statements:
    """Reads the statements of one script.

    Args:
        source: of the script.
        outside: the names that it takes from around it.
        program: where the statements go.
    """

    def __init__(self, source: Source, outside: Mapping[str, Any], program: Program) -> None:
        self.source, self.program, self.builder = source, program, program.builder
        self.expressions = Expressions(source, outside, self._script)
        self.returned: tuple[Array, ...] | None = None
        self._assigned = Counter(
            n.id
            for n in ast.walk(source.tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        self._arguments: set[str] = set()
        self._running: list[str] = []  # the variables of the loops around
        self._loops = self._conditions = 0
        self._hoisted: list[Rest] | None = None
        self._places: dict[Buffer, tuple[Any, ...]] = {}
        self._rules: dict[type, Callable[[Any], None]] = {
            ast.Assign: self._assign,
            ast.AnnAssign: self._assign,
            ast.AugAssign: self._augmented,
            ast.For: self._for,
            ast.If: self._if,
            ast.Assert: self._assert,
            ast.Return: self._return,
            ast.Expr: self._expression,
            ast.Pass: lambda n: None,
        }

    def run(self, arguments: Mapping[str, Any]) -> tuple[Array, ...]:
        """The arrays that the script returns, its statements emitted.

        Raises:
            ScriptError: for what the subset has not.
        """
        self.expressions.scopes[0].update(arguments)
        self._arguments = set(arguments)
        self._block(self.source.tree.body)
        if self.returned is None:
            raise self.source.error(
                None, "it returns nothing", "return what output_tensor made: return c"
            )
        return self.returned

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for n in body:
            if self.returned is not None:
                raise self.source.error(n, "a statement after return is never run")
            rule = self._rules.get(type(n))
            if rule is None:
                raise self.source.error(
                    n, f"there is no {type(n).__name__} in a script",
                    "statements are assignments, for, if, assert, pass and one return at the end",
                )  # fmt: skip
            rule(n)

    def _expression(self, n: ast.Expr) -> None:
        if not isinstance(n.value, ast.Constant):  # a docstring
            self.expressions.value(n.value)

    # assignments

    def _assign(self, n: ast.Assign | ast.AnnAssign) -> None:
        if n.value is None:
            raise self.source.error(n, "a name gets its type from its value", "assign a value")
        value = self.expressions.value(n.value)
        for target in n.targets if isinstance(n, ast.Assign) else [n.target]:
            self._store(target, value, n)

    def _store(self, target: ast.expr, value: Any, n: ast.stmt) -> None:
        if isinstance(target, ast.Subscript):
            self._store_element(target, value)
        elif isinstance(target, ast.Name):
            self._store_name(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (tuple, list)) or len(value) != len(target.elts):
                raise self.source.error(
                    n, f"{len(target.elts)} names stand for a value that is no tuple of as many"
                )
            kept = [self._kept(x) for x in value]  # all are read before one is stored
            for part, x in zip(target.elts, kept):
                self._store(part, x, n)
        else:
            raise self.source.error(n, "a script assigns names and elements: x = ..., c[i] = ...")

    def _kept(self, x: Any, name: str = "kept") -> Any:
        return self.builder.let(name, x) if reads_memory(x) else x

    def _store_element(self, target: ast.Subscript, value: Any) -> None:
        array, given = self._place(target)
        self._emit_store(array, given, value, target)

    def _place(self, target: ast.Subscript) -> tuple[Array, list[Any]]:
        x: Any = self.expressions.value(target.value)
        given = self.expressions.indices(target)
        if isinstance(x, Part):
            given = [*x.given, *given]
            x = x.array
        if not isinstance(x, Array):
            raise self.source.error(
                target, f"a {type(x).__name__} is no array that can be stored to",
                "allocate(shape, dtype) and output_tensor(shape, dtype) make arrays",
            )  # fmt: skip
        if not x.writable:
            raise self.source.error(
                target, f"{x.name} is computed by another stage, and only read here",
                "copy it to an array of allocate(shape, dtype)",
            )  # fmt: skip
        return x, given

    def _emit_store(self, array: Array, given: Sequence[Any], value: Any, n: ast.AST) -> None:
        value = self.expressions.checked(value, n)
        try:
            indices = array.indices(given)
        except ArgumentError as error:
            raise self.source.error(n, str(error).splitlines()[0]) from error
        self.builder.emit(BufferStore(array.buffer, ops.cast(array.dtype, value), indices))

    def _store_name(self, target: ast.Name, value: Any) -> None:
        name, before = target.id, self.expressions.find(target.id)
        if name in self._running:
            raise self.source.error(target, f"{name} is the variable of a loop around this")
        if name in self._arguments:
            raise self.source.error(
                target, f"{name} is an argument", "assign a name of its own: x = " + name
            )
        if isinstance(before, (Array, Part)) or (
            before is not None and isinstance(value, NewArray)
        ):
            raise self.source.error(target, f"{name} is an array already", "take another name")
        if isinstance(value, NewArray):
            self.expressions.scopes[-1][name] = self._new_array(name, value, target)
        elif isinstance(before, Scalar):
            self._set(before, value, target)
        elif isinstance(value, _NUMBERS) and (self._assigned[name] > 1 or reads_memory(value)):
            self._set(self._declare(name, value, target), value, target)
        elif before is not None and (self._conditions or name not in self.expressions.scopes[-1]):
            raise self.source.error(target, f"{name} stands for a {type(before).__name__} already")
        else:
            many = isinstance(value, tuple)
            kept = tuple(self._kept(x, name) for x in value) if many else self._kept(value, name)
            self.expressions.scopes[-1][name] = kept

    def _declare(self, name: str, value: Any, target: ast.AST) -> Scalar:
        place = (self.source.file, self.source.first_line, name, getattr(target, "lineno", 0))
        kind = self.program.types.get(place) or ops.convert(value).dtype
        buffer = Buffer(name, (ops.const(1),), kind, "local")
        self._places[buffer] = place
        self._emit_around(lambda body: Allocate(buffer, body))
        scalar = self.expressions.scopes[-1][name] = Scalar(buffer)
        return scalar

    def _emit_around(self, rest: Rest) -> None:
        """Emit what goes around all that follows, outside of the conditions of this loop."""
        if self._hoisted is None:
            self.builder.emit(rest)
        else:
            self._hoisted.append(rest)

    def _set(self, scalar: Scalar, value: Any, n: ast.AST) -> None:
        value, kind = self.expressions.checked(value, n), scalar.buffer.dtype
        if isinstance(value, PrimExpr):
            wanted = dt.promote(kind, value.dtype)
        else:  # a number takes the type of what it meets, where that can hold it
            same = dt.is_float(kind) or not isinstance(value, float)
            wanted = kind if same else "float32"
            if dt.is_bool(kind) and not isinstance(value, bool):
                wanted = ops.convert(value).dtype
        if wanted != kind:
            self.program.types[self._places[scalar.buffer]] = wanted
            self.program.stale = True
        store = BufferStore(scalar.buffer, ops.cast(kind, value), (ops.const(0),))
        self.builder.emit(store)

    def _augmented(self, n: ast.AugAssign) -> None:
        value = self.expressions.number(n.value)
        if isinstance(n.target, ast.Subscript):
            array, given = self._place(n.target)
            before = self.expressions.value(as_read(n.target))
            self._emit_store(array, given, self._operated(n, before, value), n)
            return
        name = getattr(n.target, "id", "?")
        scalar = self.expressions.find(name)
        if not isinstance(scalar, Scalar):
            raise self.source.error(
                n, f"{name} is no variable that was assigned before in this loop or around it",
                f"{name} = 0.0 before the loop",
            )  # fmt: skip
        self._set(scalar, self._operated(n, scalar.load(), value), n)

    def _operated(self, n: ast.AugAssign, before: Any, value: Any) -> Any:
        try:
            return operated(n.op, self.expressions.checked(before, n), value)
        except (ArgumentError, KeyError) as error:
            raise self.source.error(n, str(error).splitlines()[0]) from error

    def _new_array(self, name: str, new: NewArray, n: ast.AST) -> Array:
        whole = not self._loops and not self._conditions
        if new.role == OUTPUT and not whole:
            raise self.source.error(
                n, "an output is made inside a loop or a condition",
                "output_tensor(...) stands at the beginning of the function",
            )  # fmt: skip
        if any(reads_memory(d) for d in new.shape):
            raise self.source.error(n, f"the shape of {name} is read from memory")
        array = Array(Buffer(name, new.shape, new.dtype, new.scope), new.role, whole)
        self._emit_around(lambda body: placed(array, body))
        return array

    # loops and conditions

    def _for(self, n: ast.For) -> None:
        if n.orelse or not isinstance(n.target, ast.Name):
            raise self.source.error(n, "a loop has one variable and no else")
        loop = self.expressions.value(n.iter)
        if isinstance(loop, (tuple, list)):
            loop = Loop(CONST, 0, len(loop), steps=list(loop))
        if not isinstance(loop, Loop):
            raise self.source.error(
                n.iter, f"a loop cannot run over a {type(loop).__name__}",
                "range, serial, unroll, vectorize, parallel, const_range(n), bind(tag, n)",
            )  # fmt: skip
        name = n.target.id
        if name in self._arguments or isinstance(self.expressions.find(name), (Scalar, Array)):
            raise self.source.error(n.target, f"{name} is the name of something else already")
        if loop.kind == CONST:
            for step in loop.steps:
                self._body(n, step)
        elif loop.kind in TAGS or loop.kind.startswith("vthread"):
            self._threads(n, loop)
        else:
            begin, extent = self._kept(loop.begin, "begin"), self._kept(loop.extent, "extent")
            with self.builder.for_range(0, extent, name=name, kind=loop.kind) as var:
                self.program.loops[var] = loop.kind
                self._body(n, loop_value(begin, loop.step, var))

    def _threads(self, n: ast.For, loop: Loop) -> None:
        known = self.program.threads.setdefault(loop.kind, loop.extent)
        if str(known) != str(loop.extent):
            raise self.source.error(
                n.iter,
                f"{loop.kind} has {known} threads in another loop, here {loop.extent}",
                "all loops over a thread axis have as many steps",
            )
        extent = ops.convert(loop.extent)
        name = getattr(n.target, "id", "")
        axis = IterVar(Range(0, extent), Var(name, extent.dtype), THREAD_INDEX, loop.kind)
        with self.builder.new_scope():
            self.builder.scope_attr(axis, "thread_extent", extent)
            self._body(n, axis.var)

    def _body(self, n: ast.For, value: Any) -> None:
        """The statements of a loop, for one value of its variable."""
        name = getattr(n.target, "id", "")
        with self._scope(name, value):
            self._block(n.body)

    @contextmanager
    def _scope(self, name: str, value: Any) -> Iterator[None]:
        conditions, hoisted = self._conditions, self._hoisted
        self.expressions.scopes.append({name: value})
        self._running.append(name)
        self._loops, self._conditions, self._hoisted = self._loops + 1, 0, None
        with self.builder.new_scope():
            yield
        self._loops, self._conditions, self._hoisted = self._loops - 1, conditions, hoisted
        self._running.pop()
        self.expressions.scopes.pop()

    def _if(self, n: ast.If) -> None:
        condition = self.expressions.condition(n.test)
        if isinstance(condition, bool):
            self._block(n.body if condition else n.orelse)
            return
        outermost = self._hoisted is None
        if outermost:
            parts: list[Rest] = []
            self._hoisted = parts
            self.builder.emit(lambda body: wrapped(parts, body))
        if isinstance(n.test, ast.Call) and getattr(n.test.func, "id", "") == "likely":
            self.builder.likely(condition)
        self._conditions += 1
        with self.builder.if_scope(condition):
            self._block(n.body)
        if n.orelse:
            with self.builder.else_scope():
                self._block(n.orelse)
        self._conditions -= 1
        if outermost:
            self._hoisted = None

    def _assert(self, n: ast.Assert) -> None:
        condition = self.expressions.condition(n.test)
        said = "an assertion does not hold" if n.msg is None else self.expressions.value(n.msg)
        if not isinstance(said, str):
            raise self.source.error(n, "the message of an assertion is a text")
        if condition is False:
            raise self.source.error(n, f"the assertion does not hold: {said}")
        if not isinstance(condition, bool):
            self.builder.emit(lambda body: AssertStmt(condition, said, body))

    # functions

    def _return(self, n: ast.Return) -> None:
        if self._loops or self._conditions:
            raise self.source.error(
                n, "return stands inside a loop or a condition",
                "a script returns once, at its end",
            )  # fmt: skip
        many = n.value.elts if isinstance(n.value, (ast.Tuple, ast.List)) else [n.value]
        arrays = [self._output(n, None if x is None else self.expressions.value(x)) for x in many]
        if len({id(x) for x in arrays}) != len(arrays):
            raise self.source.error(n, "an array is returned twice")
        self.returned = tuple(arrays)

    def _output(self, n: ast.Return, x: Any) -> Array:
        """``x``, which must be an array that can be returned."""
        if not isinstance(x, Array):
            why = f"a {type(x).__name__} is returned, not an array"
        elif x.role == INPUT or not x.whole or x.buffer.storage_scope != "global":
            why = f"{x.name} is no output"
        else:
            return x
        raise self.source.error(
            n, why, "return what output_tensor made, one or several: return c, d"
        )

    def _script(self, n: ast.Call, function: Any, args: list[Any], options: dict[str, Any]) -> Any:
        """The arrays that another script returns, its statements put here."""
        if self._conditions:
            raise self.source.error(n, "a script is called inside a condition", "call it before")
        if self.program.depth >= _DEEPEST:
            raise self.source.error(n, f"{_DEEPEST} scripts call each other: this never ends")
        body = function.__whet_script__
        bound = inspect.signature(body).bind(*args, **options)
        bound.apply_defaults()
        self.program.depth += 1
        inner = Statements(source_of(body), outside(body), self.program)
        values = {k: self._kept(x, k) for k, x in bound.arguments.items()}
        arrays = inner.run(values)
        self.program.depth -= 1
        for x in arrays:
            x.role, x.whole = ALLOCATED, not self._loops
        return arrays[0] if len(arrays) == 1 else arrays
