"""Devices: where arrays live and kernels run."""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.errors import TargetError

# name -> DLPack's device type.
DEVICE_TYPES = {"cpu": 1}
_ALIASES = {"llvm": "cpu"}


@dataclass(frozen=True, slots=True)
class Device:
    """One device.

    Attributes:
        type: its kind, e.g. ``"cpu"``.
        index: which of that kind.
    """

    type: str
    index: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return DEVICE_TYPES[self.type]

    @property
    def device_id(self) -> int:
        """Which of that kind, by TVM's name."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether this machine has it."""
        return self.type == "cpu" and self.index == 0

    def sync(self) -> None:
        """Wait for all work on the device; on the CPU a call returns when it is done."""

    def __str__(self) -> str:
        return f"{self.type}({self.index})"


def cpu(index: int = 0) -> Device:
    """The CPU (all its cores are one device)."""
    return Device("cpu", index)


def device(name: str, index: int = 0) -> Device:
    """A device by name; of a whole target text the first word counts.

    Raises:
        TargetError: there is no such kind of device.
    """
    words = str(name).split()
    kind = _ALIASES.get(words[0], words[0]) if words else ""
    if kind not in DEVICE_TYPES:
        raise TargetError(
            f"device({name!r}, {index})",
            f"there is no device kind {kind!r}",
            f"kinds: {', '.join(DEVICE_TYPES)}",
        )
    return Device(kind, index)
