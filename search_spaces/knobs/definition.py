"""The definition of a knob: what ``define_*`` was given, and the choices that follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError, nearest
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.entities import VirtualAxis
from whet.search_spaces.knobs.plain import Choice

# A list longer than this is a mistake (a filter or a max_factor is missing), and would only
# fill the memory.
LARGEST_LIST = 1_000_000


class Definition(ABC):
    """A knob as ``define_*`` defined it; a kind of knob is a frozen dataclass of this class.

    Attributes:
        kind: as configs and fingerprints name it.
        name: the knob's name.
    """

    __slots__ = ()

    kind: ClassVar[str]
    name: str

    @property
    def request(self) -> str:
        """The call that defined the knob, for an error."""
        return f"define_{self.kind}({self.name!r})"

    @abstractmethod
    def choices(self) -> tuple[Choice, ...]:
        """Every legal choice, in a fixed order."""

    @abstractmethod
    def preferred(self, choices: tuple[Choice, ...]) -> int:
        """The position of the choice to take when the template names no default."""

    @abstractmethod
    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        """Points, float32 of shape ``(len(choices), n)``: alike where the L1 distance is small."""

    @abstractmethod
    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        """Names and values, float32 of shape ``(len(choices), len(names))``, for a cost model."""

    def same_as(self, other: Any) -> bool:
        """True only if ``other`` is sure to have the same choices; False where one must look."""
        return self == other

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        """The position of the choice that ``default=wanted`` means; None where there is none."""
        if not isinstance(wanted, tuple | list) or tuple(wanted) not in choices:
            return None
        return choices.index(tuple(wanted))

    def similar(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        """The position of the choice most like one of another space's knob; None: none is."""
        return self.closest(choices, wanted)

    def axes(self) -> list[VirtualAxis]:
        """The axes that ``define_*`` returns."""
        return []


def check_policy(request: str, policy: Any, policies: Sequence[str]) -> None:
    """Refuse an unknown policy.

    Raises:
        SpaceError: ``policy`` is not in ``policies``; names the nearest spelling.
    """
    if policy not in policies:
        known = f"{nearest(policy, policies)}policies: {', '.join(policies)}"
        raise SpaceError(request, "unknown policy", known)


def number_of(axes: Sequence[Any], axis: Any, request: str) -> int:
    """The position of ``axis`` in ``axes`` by identity (``==`` of axes may build an expression).

    Raises:
        SpaceError: it is not among them.
    """
    for i, other in enumerate(axes):
        if other is axis:
            return i
    raise SpaceError(request, f"the axis {axis!r} is not among axes=", f"axes: {list(axes)!r}")
