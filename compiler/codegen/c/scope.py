"""The state that the writers of one kernel share: its lines, names, buffers and known values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from whet.compiler.arith import Analyzer
from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.functions import Functions
from whet.compiler.codegen.c.names import Names
from whet.compiler.codegen.c.precedence import Text
from whet.compiler.errors import CodegenError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import PrimExpr, Var


@dataclass(frozen=True)
class Held:
    """A vector's value in variables, of ``piece`` lanes each; ``node`` keeps its id taken.

    ``piece`` is 0 for a variable that is all lanes.
    """

    node: PrimExpr
    names: tuple[str, ...]
    piece: int

    def lane(self, k: int) -> str:
        """The text of a lane."""
        if not self.piece:
            return self.names[0]
        return f"{self.names[k // self.piece]}[{k % self.piece}]"


class Scope:
    """Lines, names and memory of one kernel.

    Attributes:
        d: the dialect.
        use: the functions that the text calls.
        names: of variables and buffers.
        lines, depth: the statements so far, and how far they are indented.
        lane: the lane that is written: a number or a variable's name; None outside vectors.
        integers: variable -> whether it has the type of subscripts; others are values.
        values: variable -> its text.
        memory: the buffers that have memory, in the order in which they got it.
        analyzer: knows the loops and conditions around.
        shared: node's id -> number of all that are equal to it.
        memo: (such a number, lane) -> the variable that holds its value.
        held: node's id -> the variables that hold the value of a vector.
    """

    def __init__(self, dialect: Dialect, use: Functions) -> None:
        self.d = dialect
        self.use = use
        self.names = Names()
        self.lines: list[str] = []
        self.depth = 1
        self.lane: int | str | None = None
        self.integers: dict[Var, bool] = {}
        self.values: dict[Var, str] = {}
        self.memory: list[Buffer] = []
        self.analyzer = Analyzer()
        self.shared: dict[int, int] = {}
        self.memo: dict[tuple[int, int | str | None], Text] = {}
        self.held: dict[int, Held] = {}
        self._pointers: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Append a line at the present depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Indent the lines that are written inside."""
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def at_lane(self, lane: int | str | None) -> Iterator[None]:
        """Write what stands inside for another lane; no value from outside is one there."""
        before, self.lane = self.lane, lane
        self.memo.clear()
        yield
        self.memo.clear()
        self.lane = before

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collect the lines that are written inside, one level deeper, and append none."""
        before, memo = self.lines, dict(self.memo)
        self.lines = []
        with self.block():
            yield self.lines
        self.lines, self.memo = before, memo

    def place(self, buffer: Buffer, pointer: str) -> None:
        """Say which pointer leads to a buffer's elements."""
        self._pointers[id(buffer)] = pointer
        self.memory.append(buffer)

    def pointer(self, buffer: Buffer) -> str:
        """The pointer to a buffer's memory.

        Raises:
            CodegenError: nothing gives the buffer memory.
        """
        pointer = self._pointers.get(id(buffer))
        if pointer is None:
            raise CodegenError(
                f"the buffer {buffer.name}",
                "nothing gives it memory",
                "pass it as an argument, allocate it or declare it over the data of another one",
            )
        return pointer
