"""The annotate knob: which axes to unroll and whether to vectorize the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import LARGEST_LIST, Definition, check_policy
from whet.search_spaces.knobs.entities import LOOPS, WORDS
from whet.search_spaces.knobs.plain import Choice

POLICIES = (
    *LOOPS, "unroll_vec", "try_unroll", "try_vec", "try_unroll_vec", "bind_gpu",
    "bind_gpu_virtual", "locate_cache", "candidate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnnotateDefinition(Definition):
    """How an annotate knob was asked for; see ``ConfigSpace.define_annotate``."""

    name: str
    num_axes: int
    policy: str
    candidate: tuple[tuple[str, ...], ...]

    kind: ClassVar[str] = "annotate"

    @staticmethod
    def of(
        name: str,
        axes: Sequence[Any],
        policy: str,
        candidate: Sequence[Sequence[str]] | None,
        num_anchor: int | None = None,
    ) -> AnnotateDefinition:
        """Check the arguments of ``define_annotate``.

        Raises:
            SpaceError: an argument is wrong.
        """
        request = f"define_annotate({name!r}, policy={policy!r})"
        if _words(policy) is None:
            check_policy(request, policy, POLICIES)
        if not axes:
            raise SpaceError(request, "there are no axes")
        if num_anchor is not None:
            raise SpaceError(request, "policy='locate_cache' and num_anchor= go together")
        if (policy == "candidate") != (candidate is not None):
            raise SpaceError(request, "policy='candidate' and candidate= go together")
        entries: tuple[tuple[str, ...], ...] = ()
        if policy in _BOUND:
            entries = (_bound(policy, len(axes), request),)
        elif candidate is not None:
            if not candidate:
                raise SpaceError(request, "candidate= is empty")
            entries = tuple(tuple(entry) for entry in candidate)
        for entry in entries:
            if len(entry) != len(axes) or any(word not in WORDS for word in entry):
                raise SpaceError(
                    request,
                    f"the candidate {entry!r} is not {len(axes)} annotations",
                    f"annotations: {', '.join(WORDS)}",
                )
            if entry[-1] == "fuse":
                raise SpaceError(
                    request, f"the candidate {entry!r} fuses the last axis with no next"
                )
        return AnnotateDefinition(name, len(axes), policy, entries)

    def choices(self) -> tuple[Choice, ...]:
        if self.candidate:
            return self.candidate
        words = _words(self.policy) or []
        # Only the innermost axis can be vectorized; a policy of "vec" alone leaves the others.
        above = [word for word in words if word != "vec"] or ["none"]
        if len(above) ** (self.num_axes - 1) * len(words) > LARGEST_LIST:
            raise SpaceError(
                f"define_annotate({self.name!r}, policy={self.policy!r})",
                f"{self.num_axes} axes have more than {LARGEST_LIST} annotations",
                "annotate fewer axes, or use policy='candidate'",
            )
        return tuple(_annotations(above, words, self.num_axes))

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        # Vectorizing is nearly always right; unrolling blindly can multiply the code.
        def burden(position: int) -> tuple[bool, int]:
            words: Any = choices[position]
            return words[-1] != "vec", words.count("unroll")

        return min(range(len(choices)), key=burden)

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        return self.features(choices)[1] / 2

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        used = {word for entry in self.candidate for word in entry}
        columns = [word for word in WORDS if word in used or word in LOOPS]
        words = np.asarray(choices).reshape(len(choices), self.num_axes, 1)
        table = words == np.asarray(columns).reshape(1, 1, -1)
        names = [f"{self.name}.{axis}={word}" for axis in range(self.num_axes) for word in columns]
        return names, table.reshape(len(choices), -1).astype(np.float32)


_BOUND = {"bind_gpu": ("blockIdx", "threadIdx"), "bind_gpu_virtual": ("blockIdx", "", "threadIdx")}


def _bound(policy: str, num_axes: int, request: str) -> tuple[str, ...]:
    """Blocks, (virtual threads,) and threads, in as many dimensions as there are axes for."""
    units = _BOUND[policy]
    dimensions = min(num_axes // len(units), 3)
    if not dimensions:
        raise SpaceError(request, f"{num_axes} axes are too few", f"it binds {len(units)} or more")
    bound = [
        f"{unit}.{d}" if unit else "vthread" for unit in units for d in "zyx"[3 - dimensions :]
    ]
    return ("fuse",) * (num_axes - len(bound)) + tuple(bound)


def _words(policy: Any) -> list[str] | None:
    """The words of a policy such as ``"try_unroll_vec"``; None where it is none."""
    words = str(policy).replace("try", "none").split("_")
    legal = set(words) <= set(LOOPS) and len(set(words)) == len(words)
    return words if legal else None


def _annotations(above: list[str], words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    if length == 1:
        yield from ((word,) for word in words)
        return
    for word in above:
        for rest in _annotations(above, words, length - 1):
            yield (word, *rest)
