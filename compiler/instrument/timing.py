"""PassTimingInstrument: how long each pass took, passes inside passes included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from whet.compiler.instrument.base import PassInstrument
from whet.compiler.passes.names import PassInfo
from whet.compiler.tir.function import IRModule


@dataclass(slots=True)
class PassProfile:
    """One run of a pass.

    Attributes:
        name: the pass.
        seconds: how long it took, with what ran inside it.
        children: what ran inside it.
    """

    name: str
    seconds: float = 0.0
    children: list[PassProfile] = field(default_factory=list)

    @property
    def own_seconds(self) -> float:
        """How long it took without what ran inside it."""
        return self.seconds - sum(c.seconds for c in self.children)


class PassTimingInstrument(PassInstrument):
    """Times every pass. The results stay after the context is left, until it is entered again.

    Attributes:
        profiles: the runs in order, outermost ones.
    """

    def __init__(self) -> None:
        self.profiles: list[PassProfile] = []
        self._open: list[tuple[PassProfile, float]] = []

    def enter_pass_ctx(self) -> None:
        """Begin anew."""
        self.profiles, self._open = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Start the clock."""
        profile = PassProfile(info.name)
        (self._open[-1][0].children if self._open else self.profiles).append(profile)
        self._open.append((profile, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop the clock; also those of passes that ended with an error inside this one."""
        end = time.perf_counter()
        while self._open:
            profile, begin = self._open.pop()
            profile.seconds = end - begin
            if profile.name == info.name:
                return

    def _runs(
        self, profiles: list[PassProfile] | None = None, depth: int = 0
    ) -> Iterator[tuple[int, PassProfile]]:
        """All runs with their depths, each before those inside it."""
        for p in self.profiles if profiles is None else profiles:
            yield depth, p
            yield from self._runs(p.children, depth + 1)

    def seconds(self) -> dict[str, float]:
        """Own seconds of each pass, those of equal names added up."""
        total: dict[str, float] = {}
        for _, p in self._runs():
            total[p.name] = total.get(p.name, 0.0) + p.own_seconds
        return total

    def render(self) -> str:
        """The times as text: a line each pass, passes inside it indented, shares of the whole."""
        whole = sum(p.seconds for p in self.profiles)
        if not self.profiles:
            return "no pass has run"
        lines = []
        for depth, p in self._runs():
            share = 100 * p.seconds / (whole or 1.0)
            lines.append(f"{p.seconds * 1e3:9.3f} ms {share:5.1f}%  {'  ' * depth}{p.name}")
        lines.append(f"{whole * 1e3:9.3f} ms 100.0%  all")
        return "\n".join(lines)
