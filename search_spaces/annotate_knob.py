"""The annotate knob: which axes to unroll and whether to vectorize the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.entities import VirtualAxis
from whet.search_spaces.knobs import LARGEST_LIST, check_policy
from whet.search_spaces.plain import Choice

WORDS = ("none", "unroll", "vec")
POLICIES = (
    "none", "unroll", "vec", "unroll_vec", "try_unroll", "try_vec", "try_unroll_vec",
    "try_vec_unroll", "none_unroll", "none_vec", "none_unroll_vec", "vec_unroll", "candidate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnnotateDefinition:
    """How an annotate knob was asked for; see ``ConfigSpace.define_annotate``."""

    name: str
    num_axes: int
    policy: str
    candidate: tuple[tuple[str, ...], ...]

    kind = "annotate"

    @staticmethod
    def of(
        name: str, axes: Sequence[Any], policy: str, candidate: Sequence[Sequence[str]] | None
    ) -> AnnotateDefinition:
        """Check the arguments of ``define_annotate``.

        Raises:
            SpaceError: an argument is wrong.
        """
        asked = f"define_annotate({name!r}, policy={policy!r})"
        check_policy(asked, policy, POLICIES)
        if not axes:
            raise SpaceError(asked, "there are no axes")
        if (policy == "candidate") != (candidate is not None):
            raise SpaceError(asked, "policy='candidate' and candidate= go together")
        entries: tuple[tuple[str, ...], ...] = ()
        if candidate is not None:
            if not candidate:
                raise SpaceError(asked, "candidate= is empty")
            entries = tuple(tuple(entry) for entry in candidate)
        for entry in entries:
            if len(entry) != len(axes) or any(word not in WORDS for word in entry):
                raise SpaceError(
                    asked,
                    f"the candidate {entry!r} is not {len(axes)} annotations",
                    f"annotations: {', '.join(WORDS)}",
                )
        return AnnotateDefinition(name, len(axes), policy, entries)

    def choices(self) -> tuple[Choice, ...]:
        if self.candidate:
            return self.candidate
        words = self.policy.replace("try", "none").split("_")
        # Only the innermost axis can be vectorized; a policy of "vec" alone leaves the others.
        above = [word for word in words if word != "vec"] or ["none"]
        if len(above) ** (self.num_axes - 1) * len(words) > LARGEST_LIST:
            raise SpaceError(
                f"define_annotate({self.name!r}, policy={self.policy!r})",
                f"{self.num_axes} axes have more than {LARGEST_LIST} annotations",
                "annotate fewer axes, or use policy='candidate'",
            )
        return tuple(_annotations(above, words, self.num_axes))

    def same_as(self, other: Any) -> bool:
        return self == other

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        # Vectorizing is nearly always right; unrolling blindly can multiply the code.
        def burden(position: int) -> tuple[bool, int]:
            words: Any = choices[position]
            return words[-1] != "vec", words.count("unroll")

        return min(range(len(choices)), key=burden)

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        if not isinstance(wanted, tuple | list) or tuple(wanted) not in choices:
            return None
        return choices.index(tuple(wanted))

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        return self.features(choices)[1] / 2

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        words = np.asarray(choices).reshape(len(choices), self.num_axes, 1)
        table = words == np.asarray(WORDS).reshape(1, 1, -1)
        names = [f"{self.name}.{axis}={word}" for axis in range(self.num_axes) for word in WORDS]
        return names, table.reshape(len(choices), -1).astype(np.float32)

    def axes(self) -> list[VirtualAxis]:
        return []


def _annotations(above: list[str], words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    if length == 1:
        yield from ((word,) for word in words)
        return
    for word in above:
        for rest in _annotations(above, words, length - 1):
            yield (word, *rest)
