"""Writing one LLVM function as text, each operation once and as far out of the loops as it can be.

The text grows in nested scopes, one a loop or a branch. A pure operation is written at the end of
the outermost scope that knows its operands; as an inner scope is appended to its parent only when
it is closed, that place is just before the loop. The same operation with the same operands in a
scope that is still open is not written again. This is value numbering and loop-invariant code
motion for the price of a dictionary look-up, so that LLVM needs no optimisation passes for either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.llvm.text.module import Module

# So many stores wait for one branch at most: each holds a register.
MAX_IN_A_ROW = 8
# The variable of an innermost loop of more addresses and branches may be hidden from LLVM.
MAX_ADDRESSES = 64


class Scope:
    """The lines of one loop or branch so far, and what they compute."""

    __slots__ = ("innermost", "label", "lines", "loads", "memo")

    def __init__(self, label: str) -> None:
        self.label = label
        self.innermost = True
        self.lines: list[str] = []
        self.memo: dict[str, str] = {}
        self.loads: dict[tuple[str, int], str] = {}


class FunctionWriter:
    """The body of one function.

    Attributes:
        module: takes the declarations that it needs.
        scopes: the open scopes, the function's own first.
        allocas: lines for the entry block.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.allocas: list[str] = []
        self.scopes = [Scope("entry")]
        self._depth: dict[str, int] = {}
        self._count = 0
        self._epoch: dict[str, int] = {}
        self.may_overlap = False  # buffers: then a store to one may change any
        self._waiting: list[tuple[tuple[str, ...], str, Sequence[Sequence[str]]]] = []

    def fresh(self, hint: str = "x") -> str:
        """A new value name."""
        self._count += 1
        return f"%{hint}{self._count}"

    def label(self, hint: str) -> str:
        """A new label."""
        self._count += 1
        return f"{hint}{self._count}"

    def depth(self, value: str) -> int:
        """The scope in which a value is known; constants and arguments are known in the first."""
        return self._depth.get(value, 0)

    def line(self, text: str) -> None:
        """Write a line with an effect, here."""
        self.flush()
        self.scopes[-1].lines.append("  " + text)

    def here(self, operation: str) -> str:
        """The result of an operation that must stay where it is."""
        self.flush()
        name = self.fresh()
        self.scopes[-1].lines.append(f"  {name} = {operation}")
        self._depth[name] = len(self.scopes) - 1
        return name

    def define(self, name: str) -> str:
        """Declare that ``name`` is a value of the innermost scope."""
        self._depth[name] = len(self.scopes) - 1
        return name

    def pure(self, operation: str, *operands: str) -> str:
        """The result of an operation without effects, written once where its operands are known."""
        depth = 0
        known = self._depth
        for v in operands:
            d = known.get(v, 0)
            if d > depth:
                depth = d
        scope = self.scopes[depth]
        found = scope.memo.get(operation)
        if found is not None:
            return found
        self._count += 1
        name = f"%x{self._count}"
        scope.lines.append(f"  {name} = {operation}")
        scope.memo[operation] = name
        known[name] = depth
        return name

    # instructions

    def op(self, op: str, kind: str, a: str, b: str) -> str:
        """An operation of two operands of a type: ``add``, ``icmp slt``."""
        return self.pure(f"{op} {kind} {a}, {b}", a, b)

    def select(self, kind: str, c: str, a: str, b: str) -> str:
        """``a`` where the condition holds, else ``b``."""
        bit = ty.condition_type(kind)
        return self.pure(f"select {bit} {c}, {kind} {a}, {kind} {b}", c, a, b)

    def cast(self, op: str, source: str, v: str, kind: str) -> str:
        """A conversion: ``sext``, ``bitcast``."""
        return self.pure(f"{op} {source} {v} to {kind}", v)

    def extract(self, kind: str, v: str, lane: int) -> str:
        """One lane of a vector."""
        return self.pure(f"extractelement {kind} {v}, i64 {lane}", v)

    def vector(self, kind: str, lanes: Iterable[str]) -> str:
        """A vector of a type that is put together from its lanes."""
        out, scalar = "poison", ty.scalar_of(kind)
        for k, v in enumerate(lanes):
            out = self.pure(f"insertelement {kind} {out}, {scalar} {v}, i64 {k}", out, v)
        return out

    def offset(self, pointer: str, by: int | str, kind: str = "i8") -> str:
        """The address ``by`` elements behind another one."""
        return self.pure(f"getelementptr {kind}, ptr {pointer}, i64 {by}", pointer, str(by))

    def intrinsic(self, name: str, dtype: str, *args: str, flags: str = "") -> str:
        """A call of an intrinsic of LLVM whose arguments and result are of one type."""
        kind, symbol, declaration = _intrinsic(name, dtype, len(args))
        self.module.declared[declaration] = None
        given = f", {kind} ".join(args)
        return self.pure(f"call {flags}{kind} {symbol}({kind} {given})", *args)

    # memory

    def slot(self, kind: str, hint: str, more: str = "") -> str:
        """A new place on the stack for a value of a type."""
        name = self.fresh(hint)
        self.allocas.append(f"  {name} = alloca {kind}{more}")
        return name

    def load(self, operation: str, buffer: str) -> str:
        """The result of a load; an earlier one where nothing was stored to the buffer since."""
        buffer = "" if self.may_overlap else buffer
        key = (operation, self._epoch.get(buffer, 0))
        for scope in reversed(self.scopes):
            found = scope.loads.get(key)
            if found is not None:
                return found
        if self._waiting and (self.may_overlap or self._waiting[0][1] == buffer):
            self.flush()
        name = self.fresh()
        self.scopes[-1].lines.append(f"  {name} = {operation}")
        self._depth[name] = len(self.scopes) - 1
        self.scopes[-1].loads[key] = name
        return name

    def touched(self, buffer: str) -> None:
        """Forget what was loaded from a buffer: it is written now."""
        buffer = "" if self.may_overlap else buffer
        self._epoch[buffer] = self._epoch.get(buffer, 0) + 1

    # control flow

    @contextmanager
    def loop(self, begin: str, count: str, known_positive: bool, hint: str) -> Iterator[str]:
        """A loop of ``count`` steps from ``begin``; yields its variable, an i64."""
        self.flush()
        parent = self.scopes[-1]
        head, done = self.label("loop"), self.label("done")
        var, after = self.fresh(hint + "."), self.fresh(hint + ".next")
        self.scopes.append(Scope(head))
        self.define(var)
        yield var
        self.flush()
        scope = self.scopes.pop()
        # begin and count are known outside, so what computes the end is written before the loop
        end = count if begin == "0" else self.pure(f"add nsw i64 {begin}, {count}", begin, count)
        if not known_positive:
            some, none = self.label("some"), done
            more = self.here(f"icmp sgt i64 {count}, 0")
            self.line(f"br i1 {more}, label %{some}, label %{none}")
            parent.lines.append(f"{some}:")
            parent.label = some
        for outer in self.scopes:
            outer.innermost = False
        hidden = scope.innermost and _is_hidden(scope.lines)
        counter = f"{var}.hidden" if hidden else var
        parent.lines += [
            f"  br label %{head}",
            f"{head}:",
            f"  {counter} = phi i64 [ {begin}, %{parent.label} ], [ {after}, %{scope.label} ]",
            *([f'  {var} = call i64 asm "", "=r,0"(i64 {counter})'] if hidden else ()),
            *scope.lines,
            # counted from a number, it never wraps; what is computed may begin below zero
            f"  {after} = add {'nuw ' if begin.isdigit() else ''}nsw i64 {counter}, 1",
            f"  {var}.more = icmp slt i64 {after}, {end}",
            f"  br i1 {var}.more, label %{head}, label %{done}",
            f"{done}:",
        ]
        parent.label = done

    @contextmanager
    def repeat(self) -> Iterator[Callable[[str], None]]:
        """A loop that is left as soon as the i1, given to the function that this yields, is false.

        What is written before that call computes it, anew in each step.
        """
        self.flush()
        parent = self.scopes[-1]
        head, done = self.label("again"), self.label("done")
        scope = Scope(head)
        self.scopes.append(scope)

        def unless(condition: str) -> None:
            self.flush()
            body = self.label("body")
            scope.lines += [f"  br i1 {condition}, label %{body}, label %{done}", f"{body}:"]
            scope.label = body

        yield unless
        self.flush()
        self.scopes.pop()
        for outer in self.scopes:
            outer.innermost = False
        parent.lines += [
            f"  br label %{head}",
            f"{head}:",
            *scope.lines,
            f"  br label %{head}",
            f"{done}:",
        ]
        parent.label = done

    @contextmanager
    def branch(self, condition: str) -> Iterator[None]:
        """A branch: what is written inside runs only where the i1 ``condition`` holds."""
        self.flush()
        yes, merge = self.label("then"), self.label("fi")
        self.scopes.append(Scope(yes))
        yield
        self.flush()
        scope = self.scopes.pop()
        parent = self.scopes[-1]
        parent.lines += [
            f"  br i1 {condition}, label %{yes}, label %{merge}",
            f"{yes}:",
            *scope.lines,
            f"  br label %{merge}",
            f"{merge}:",
        ]
        parent.label = merge

    def first_of(
        self, conditions: Sequence[str], buffer: str, ways: Sequence[Sequence[str]]
    ) -> None:
        """Lines with effects on a buffer: those of the first i1 that holds, else the last ones.

        What is asked the same questions in a row is written as one branch, at the end of the row:
        other values may be computed and other buffers read meanwhile.

        Args:
            conditions: in the order in which they are asked.
            buffer: the pointer to what is written.
            ways: the lines for each condition; and those for none.
        """
        under, waiting = tuple(conditions), self._waiting
        if waiting and (waiting[0][:2] != (under, buffer) or len(waiting) == MAX_IN_A_ROW):
            self.flush()
        self._waiting.append((under, buffer, ways))

    def flush(self) -> None:
        """Write what waits for more of its kind, here."""
        waiting = self._waiting
        if not waiting:
            return
        self._waiting = []
        conditions = waiting[0][0]
        merge, scope = self.label("fi"), self.scopes[-1]
        for k in range(len(conditions) + 1):
            if k < len(conditions):
                here, other = self.label("then"), self.label("else")
                scope.lines += [
                    f"  br i1 {conditions[k]}, label %{here}, label %{other}",
                    f"{here}:",
                ]
            scope.lines += ["  " + line for _, _, ways in waiting for line in ways[k]]
            scope.lines += [f"  br label %{merge}", f"{other if k < len(conditions) else merge}:"]
        scope.label = merge

    def text(self) -> str:
        """The body, from the entry block on."""
        assert len(self.scopes) == 1
        self.flush()
        return "\n".join(["entry:", *self.allocas, *self.scopes[0].lines])


def _is_hidden(lines: Sequence[str]) -> bool:
    """True for an innermost loop of many addresses that has branches or few products.

    LLVM's loop strength reduction weighs every way to keep all of a loop's addresses in registers:
    for Winograd's transforms it takes 30 to 85 % of the whole compilation. Of a variable that an
    empty assembly has made it knows nothing, and lets such a loop be; the kernels are as fast.
    It does speed up the inner loops of GEMMs, which have a product for each address or two.
    """
    if len(lines) <= MAX_ADDRESSES:
        return False
    branches = sum(x.startswith("  br ") for x in lines)
    addresses = sum(" = getelementptr " in x for x in lines)
    if branches + addresses <= MAX_ADDRESSES:
        return False
    return branches > 0 or addresses > 2 * sum("@llvm.fm" in x for x in lines)  # fma, fmuladd


@lru_cache(None)
def _intrinsic(name: str, dtype: str, count: int) -> tuple[str, str, str]:
    """The type, the symbol and the declaration of an intrinsic of ``count`` arguments."""
    kind, symbol = ty.type_of(dtype), f"@llvm.{name}.{ty.suffix(dtype)}"
    return kind, symbol, f"declare {kind} {symbol}({', '.join([kind] * count)})"
