"""The report: what of a module is compiled, and what stayed in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """One graph that ``torch.compile`` gave to Whet.

    Attributes:
        parts: for each compiled part the number of its operators.
        stayed: operator -> why PyTorch runs it.
        compilations: for each time that it was compiled the shapes of the inputs, and the ranges of
            sizes that stay open.
        fixed: a size that dynamo left open -> why each number of it is compiled by itself.
    """

    parts: list[int] = field(default_factory=list)
    stayed: dict[str, str] = field(default_factory=dict)
    compilations: list[str] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        many = sum(self.parts)
        done = f"{many} operators compiled in {len(self.parts)} parts"
        if self.fixed:
            names, why = ", ".join(self.fixed), "; ".join(dict.fromkeys(self.fixed.values()))
            done += f"; each size by itself of {names}: {why}"
        if not self.stayed:
            return done
        left = "; ".join(f"{name}: {why}" for name, why in self.stayed.items())
        return f"{done}; in PyTorch: {left}"


REPORTS: list[Report] = []
_MOST = 100  # reports that are kept


def report() -> Report:
    """The report of the graph that was given to Whet last.

    Raises:
        LookupError: none was.
    """
    if not REPORTS:
        raise LookupError('no module was compiled with torch.compile(..., backend="whet")')
    return REPORTS[-1]


def reports() -> list[Report]:
    """The reports of all graphs, the last hundred of them; a module may have several graphs."""
    return list(REPORTS)


def new_report() -> Report:
    """A report of a new graph."""
    made = Report()
    REPORTS.append(made)
    del REPORTS[:-_MOST]
    return made
