"""The trace of a schedule: each primitive that was applied, printable as Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.compiler.te.tensor import Operation, Tensor
from whet.compiler.tir import expr as e


@dataclass(slots=True, frozen=True, eq=False)
class Step:
    """One primitive: its name, its stage's operation, arguments, options and what came back."""

    primitive: str
    stage: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Trace:
    """The steps in order; ``print(trace)`` shows them as Python."""

    steps: list[Step] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(_Text().step(s) for s in self.steps) if self.steps else "# no steps"


class _Text:
    """Prints steps; names are Python identifiers made of the axes' names."""

    def step(self, s: Step) -> str:
        on_schedule = s.primitive in ("cache_write", "cache_read")
        head = "s" if on_schedule else f"s[{_identifier(s.stage)}]"
        args = [self.arg(a) for a in s.args]
        args += [f"{k}={self.arg(v)}" for k, v in s.options.items()]
        results = ", ".join(self.arg(r) for r in s.results)
        call = f"{head}.{s.primitive}({', '.join(args)})"
        return f"{results} = {call}" if results else call

    def arg(self, a: Any) -> str:
        from whet.compiler.te.stage import Stage
        from whet.compiler.tir.printer import expr_text

        if isinstance(a, e.IterVar):
            return _identifier(a.var.name)
        if isinstance(a, (Tensor, Operation)):
            return _identifier(a.name)
        if isinstance(a, Stage):
            return f"s[{_identifier(a.op.name)}]"
        if isinstance(a, e.PrimExpr):
            return expr_text(a)
        if isinstance(a, (list, tuple)):
            return "[" + ", ".join(self.arg(x) for x in a) + "]"
        return repr(a)


def _identifier(name: str) -> str:
    return name.replace(".", "_")
