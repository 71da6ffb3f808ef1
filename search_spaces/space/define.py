"""The ``define_*`` methods: one surface for a space being collected and a config being applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.annotate import AnnotateDefinition
from whet.search_spaces.knobs.definition import Definition
from whet.search_spaces.knobs.entities import Entity, VirtualAxis
from whet.search_spaces.knobs.knob import Knob
from whet.search_spaces.knobs.locate import LocateDefinition
from whet.search_spaces.knobs.option import OptionDefinition
from whet.search_spaces.knobs.plain import Choice
from whet.search_spaces.knobs.reorder import ReorderDefinition
from whet.search_spaces.knobs.split import Filter, SplitDefinition
from whet.search_spaces.space import fallback


class DefineKnobs(ABC):
    """The config as a template sees it: it defines knobs; ``cfg[name]`` gives each one's entity.

    Attributes:
        is_fallback: whether the default config is in force for want of another one: nothing was
            chosen, and no log had a record that applies.
        level: the level of the space: ``"full"`` or ``"quick"``. A template sees ``"full"`` even
            when a quick space is searched: its knobs are the same.
        errors: what :meth:`raise_error` was given.
        flop: what :meth:`add_flop` was given, summed up.
        knobs: name -> knob, in the order of definition.
        suggested: what :meth:`suggest` was given.
        trusted: what :meth:`check_by` was given.
        given: what the template itself chose by ``cfg[name] = entity``.
    """

    is_fallback: bool = False
    level: str = "full"
    errors: list[str]
    suggested: list[dict[str, Choice]]
    trusted: dict[str, Choice]
    flop: int = 0
    knobs: Mapping[str, Knob]
    given: dict[str, Entity]

    @abstractmethod
    def _define(
        self, definition: Definition, default: Any, quick: Sequence[Any] | None
    ) -> list[VirtualAxis]:
        """Take note of a knob; returns the axes that it makes."""

    @abstractmethod
    def _choose(self, choices: Mapping[str, Choice]) -> None:
        """Take choices for knobs; the others change only where a constraint requires it."""

    @abstractmethod
    def __getitem__(self, name: Any) -> Any:
        """The entity of the knob ``name``."""

    @abstractmethod
    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        """Constrain several knobs together; may be called several times.

        Only configs for which every filter is true are valid: no other is counted, drawn, or
        proposed. It does not matter whether the knobs are defined before or after.

        Args:
            filter: called with a view of a config, in which ``view[name]`` is the knob's entity:
                ``lambda c: c["x"].size[-1] * c["y"].size[-1] <= 64``. It must depend on nothing
                but the knobs it reads and on values that do not change.

        Which knobs a filter reads is observed. One that reads few (up to 200,000 combinations of
        their choices) is tabulated when it is first needed, and costs next to nothing from then on.

        Raises:
            SpaceError: not a function. Later, where a config is judged: the filter raises, or no
                config is left.
        """

    def define_split(
        self,
        name: str,
        axis: Any,
        policy: str = "factors",
        *,
        num_outputs: int | None = None,
        max_factor: int | None = None,
        filter: Filter | None = None,
        no_tail: bool = False,
        candidate: Sequence[Sequence[int]] | None = None,
        default: Sequence[int] | None = None,
        quick: Sequence[Sequence[int]] | None = None,
    ) -> list[VirtualAxis]:
        """Ask how to split an axis; ``cfg[name]`` is a ``SplitEntity``.

        Sizes are outermost first, and the first is ``ceil(extent / product of the others)``.

        Args:
            name: the knob's name.
            axis: an operation's axis of constant extent, or the extent.
            policy: where the inner sizes come from: ``"factors"``: divisors, so that nothing is
                left over; ``"power2"``: powers of two whose product is at most the extent;
                ``"verbose"``: both; ``"candidate"``: the list ``candidate``.
            num_outputs: number of loops, at least 1; needed but with ``"candidate"``.
            max_factor: the largest inner size (the first one is free).
            filter: called with each ``SplitEntity``; those for which it is false are left out.
            no_tail: leave out sizes that do not divide the extent.
            candidate: lists of sizes; a first size of -1 stands for what is left.
            default: sizes to take outside a search; where they are not legal, the legal ones
                nearest to them (in powers of two) are meant. Default: 16 innermost and 4 above, or
                the nearest.
            quick: sizes that a quick space keeps (the nearest legal ones), besides the default's.
                Default: the default and the choices nearest to it, 6 in all.

        Returns:
            one token per loop, outermost first, to name in ``define_reorder``.

        Raises:
            SpaceError: a wrong argument, no legal sizes, a name used twice, or, when a config is
                applied, other sizes than when the space was collected.
        """
        _check_name("define_split", name)
        definition = SplitDefinition.of(
            name, axis, policy, num_outputs, max_factor, filter, no_tail, candidate
        )
        return self._define(definition, default, quick)

    def define_reorder(
        self,
        name: str,
        axes: Sequence[Any],
        policy: str,
        *,
        interval: tuple[int, int] | None = None,
        candidate: Sequence[Sequence[Any]] | None = None,
        spatial: Sequence[Sequence[Any]] | None = None,
        reduce: Sequence[Sequence[Any]] | None = None,
        default: Sequence[int] | None = None,
        quick: Sequence[Sequence[int]] | None = None,
    ) -> list[VirtualAxis]:
        """Ask in which order axes run; ``cfg[name]`` is a ``ReorderEntity``.

        Args:
            name: the knob's name.
            axes: the axes, or tokens that ``define_split`` returned.
            policy: ``"identity"``: as given; ``"all"``: every order; ``"interval_all"``: every
                order of ``axes[begin:end]``; ``"candidate"``: the list ``candidate``;
                ``"interleave"``: every merge of the outer parts of the ``spatial`` chains, then
                every merge of their last axes with the ``reduce`` chains; ``"interleave_cuda"``:
                the outer parts of the ``reduce`` chains stay between the two.
            interval: ``(begin, end)``.
            candidate: orders, each of the given axes or of their numbers.
            spatial: chains of axes that keep their order, outermost first.
            reduce: the same for reduction axes.
            default: the permutation to take outside a search. Default: the order given where it is
                legal, else the first; with ``"interleave"`` level by level.
            quick: permutations that a quick space keeps, as in :meth:`define_split`.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_reorder", name)
        definition = ReorderDefinition.of(name, axes, policy, interval, candidate, spatial, reduce)
        return self._define(definition, default, quick)

    def define_annotate(
        self,
        name: str,
        axes: Sequence[Any],
        policy: str,
        *,
        num_anchor: int | None = None,
        candidate: Sequence[Sequence[str]] | None = None,
        default: Sequence[Any] | None = None,
        quick: Sequence[Sequence[Any]] | None = None,
    ) -> list[VirtualAxis]:
        """Ask which axes to unroll, vectorize or bind; ``cfg[name]`` is an ``AnnotateEntity``.

        Args:
            name: the knob's name.
            axes: the axes, outermost first, or tokens that ``define_split`` returned.
            policy: words joined by ``_``: ``none``, ``unroll``, ``vec``, and ``try`` for none as
                well: ``"try_unroll"``, ``"try_unroll_vec"``, ... ; only the last axis can be
                vectorized. ``"bind_gpu"``: 2, 4 or 6 axes to blocks and threads, the others fused
                into the outermost; ``"bind_gpu_virtual"``: 3, 6 or 9 axes, with virtual threads
                between. ``"locate_cache"``: at which ``num_anchor`` of the axes caches are
                computed. ``"candidate"``: the list ``candidate``.
            num_anchor: how many caches are placed.
            candidate: lists of words, one per axis: ``"none"``, ``"unroll"``, ``"vec"``,
                ``"fuse"`` (with the next axis), ``"vthread"``, ``"blockIdx.x"`` ...
                ``"threadIdx.z"``.
            default: the words to take outside a search. Default: the last axis vectorized and as
                few unrolled as the policy allows; caches as far inside as can be.
            quick: words that a quick space keeps, as in :meth:`define_split`.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_annotate", name)
        definition: Definition
        if policy == "locate_cache":
            definition = LocateDefinition.of(name, axes, num_anchor, candidate)
        else:
            definition = AnnotateDefinition.of(name, axes, policy, candidate, num_anchor)
        return self._define(definition, default, quick)

    def define_knob(
        self,
        name: str,
        candidates: Iterable[Any],
        default: Any = None,
        *,
        quick: Sequence[Any] | None = None,
    ) -> None:
        """Ask for one of a list of values; ``cfg[name].val`` is the value.

        Args:
            name: the knob's name.
            candidates: numbers, strings, bools, None or tuples of these; lists become tuples.
            default: the value to take outside a search. Default: the first.
            quick: values that a quick space keeps, as in :meth:`define_split`.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_knob", name)
        self._define(OptionDefinition.of(name, candidates), default, quick)

    def suggest(self, choices: Mapping[str, Choice]) -> None:
        """Name choices that a search should try early, the other knobs at their defaults.

        Args:
            choices: by the names of knobs that are defined.
        """
        self.suggested.append(dict(choices))

    def check_by(self, choices: Mapping[str, Choice]) -> None:
        """Name choices by whose numbers all configs are checked, in place of the default's.

        Args:
            choices: by the names of knobs that are defined; the others are at their defaults.
        """
        self.trusted.update(choices)

    def raise_error(self, msg: str) -> None:
        """Say that the config in force makes no program, and go on.

        Once the template has run, what called it gets a SpaceError with all that was said.

        Args:
            msg: what is wrong.
        """
        self.errors.append(str(msg))

    def valid(self) -> bool:
        """True if :meth:`raise_error` was not called."""
        return not self.errors

    def add_flop(self, flop: int | float) -> None:
        """Count arithmetic operations of one call that the compute graph does not show.

        Args:
            flop: a number of at least 0, as large as an int can be; a fraction is cut off.

        Raises:
            SpaceError: something else.
        """
        try:
            number = int(flop)
        except (TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"add_flop({flop!r})", "a number is needed") from error
        if number < 0:
            raise SpaceError(f"add_flop({flop!r})", "the number must not be negative")
        self.flop += number

    def axis(self, axis: Any) -> Any:
        """The axis itself; TVM's templates wrap theirs in it."""
        return axis

    reduce_axis = axis
    fallback_split = fallback.fallback_split
    __setitem__ = fallback.give_entity
    fallback_with_reference_log = fallback.fallback_with_reference_log


def _check_name(request: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise SpaceError(f"{request}({name!r})", "a knob's name must be a non-empty string")


def not_defined(name: Any, knobs: Iterable[str]) -> SpaceError:
    """The error for ``cfg[name]`` before the knob is defined."""
    known = ", ".join(knobs) or "(none)"
    return SpaceError(f"cfg[{name!r}]", "no such knob is defined yet", f"knobs: {known}")
