"""TunedBy: the record that a kernel's config was taken from, and why it was that one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

HOWS = ("exact", "device", "target", "shape", "default")
"""The ways to a config, in the order in which they are tried."""


@dataclass(frozen=True)
class TunedBy:
    """Where a kernel's config comes from: plain data that is exported and pickled with the kernel.

    Attributes:
        how: ``"exact"``: the best record of this workload, target and device; ``"device"``: of the
            same workload and target on another device; ``"target"``: of the same workload for
            another target, fitted to this one's space; ``"shape"``: of a near workload of the same
            template; ``"default"``: no record applied.
        workload: what was tuned; of a default config, what was built.
        target: what the record was compiled for, as text that ``Target`` reads.
        device: the fingerprint of the device that measured; "" for a default config.
        cost: seconds of a call, as they were measured for ``workload`` on ``device``; None for a
            default config.
        trial: the record's run and its number in the run; None for a default config.
        log: the path or URL of the log, without a password; of a default config, the one that was
            asked first.
        why: the reason, in words.
    """

    how: str
    workload: str
    target: str
    device: str = ""
    cost: float | None = None
    trial: tuple[int, int] | None = None
    log: str = ""
    why: str = ""

    @property
    def is_tuned(self) -> bool:
        """True where a record applied."""
        return self.how != "default"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON-able data."""
        return asdict(self) | {"trial": None if self.trial is None else list(self.trial)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TunedBy:
        """The value that :meth:`to_json` described.

        Raises:
            ValueError: it is no such data.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"{data!r} does not say where a config comes from")
        names = {field.name for field in fields(TunedBy)}
        values = {name: value for name, value in data.items() if name in names}
        trial, cost = values.pop("trial", None), values.pop("cost", None)
        texts = all(isinstance(value, str) for value in values.values())
        if not texts or values.get("how") not in HOWS or not {"workload", "target"} <= set(values):
            raise ValueError(f"{dict(data)!r} does not say where a config comes from")
        if cost is not None and (type(cost) not in (int, float) or not cost > 0):
            raise ValueError(f"{cost!r} is no cost")
        if trial is not None:
            if not isinstance(trial, list | tuple) or [type(n) for n in trial] != [int, int]:
                raise ValueError(f"{trial!r} is no run and number of a trial")
            trial = (trial[0], trial[1])
        return TunedBy(**values, cost=cost, trial=trial)

    def __str__(self) -> str:
        if not self.is_tuned:
            return f"{self.workload}: default config ({self.why})"
        cost = "" if self.cost is None else f", {self.cost * 1e3:.4g} ms"
        trial = "" if self.trial is None else f"trial {self.trial[1]} of run {self.trial[0]} of "
        return f"{self.how}: {self.workload} on {self.device}{cost} ({trial}{self.log}; {self.why})"
