"""PrimFunc, one function of loop IR, and IRModule, named functions that are built together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Var
from whet.compiler.tir.stmt import Stmt


@dataclass(slots=True, eq=False)
class PrimFunc:
    """A function.

    Attributes:
        params: buffers and scalar variables, in the order of the caller's arguments.
        body: what it does.
        attrs: ``global_symbol`` is its name; ``lowered`` says that the passes have run.
    """

    params: tuple[Buffer | Var, ...]
    body: Stmt
    attrs: dict[str, Any] = field(default_factory=dict)

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same function with another body; itself when the body is the same."""
        return self if body is self.body else replace(self, body=body)

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """The same function with one attribute set."""
        return replace(self, attrs={**self.attrs, key: value})

    def script(self) -> str:
        """The function as Python-like text."""
        from whet.compiler.tir.printer import function_text

        return function_text(self)

    __str__ = script


class IRModule(Mapping[str, PrimFunc]):
    """Named functions; printing shows their loops."""

    def __init__(self, functions: Mapping[str, PrimFunc] | None = None) -> None:
        self.functions: dict[str, PrimFunc] = dict(functions or {})

    def __getitem__(self, name: str) -> PrimFunc:
        if name not in self.functions:
            raise ArgumentError(
                f"IRModule[{name!r}]",
                "there is no such function",
                "functions: " + ", ".join(self.functions),
            )
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def map(self, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
        """The module with every function changed."""
        return IRModule({name: change(func) for name, func in self.functions.items()})

    def script(self) -> str:
        """All functions as Python-like text."""
        return "\n\n".join(func.script() for func in self.functions.values())

    __str__ = script
    __repr__ = script

    def program_hash(self) -> str:
        """The identity of the program: the same text, the same hash (40 hexadecimal digits)."""
        return hashlib.sha256(self.script().encode()).hexdigest()[:40]
