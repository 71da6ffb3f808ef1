"""The ``define_*`` methods: one surface for a space being collected and a config being applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.annotate_knob import AnnotateDefinition
from whet.search_spaces.entities import VirtualAxis
from whet.search_spaces.knobs import Definition
from whet.search_spaces.option_knob import OptionDefinition
from whet.search_spaces.reorder_knob import ReorderDefinition
from whet.search_spaces.split_knob import Filter, SplitDefinition


class DefineKnobs(ABC):
    """What a template talks to: it defines knobs, and ``cfg[name]`` gives each one's entity.

    Attributes:
        is_fallback: whether the default config is in force for want of another one: nothing was
            chosen, and no log had a record that applies.
    """

    is_fallback: bool = False

    @abstractmethod
    def _define(self, definition: Definition, default: Any) -> list[VirtualAxis]:
        """Take note of a knob; returns the axes that it makes."""

    @abstractmethod
    def _add_flop(self, flop: int) -> None:
        """Take note of arithmetic operations."""

    @abstractmethod
    def __getitem__(self, name: Any) -> Any:
        """The entity of the knob ``name``."""

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
        return self._define(definition, default)

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
    ) -> list[VirtualAxis]:
        """Ask in which order axes run; ``cfg[name]`` is a ``ReorderEntity``.

        Args:
            name: the knob's name.
            axes: the axes, or tokens that ``define_split`` returned.
            policy: ``"identity"``: as given; ``"all"``: every order; ``"interval_all"``: every
                order of ``axes[begin:end]``; ``"candidate"``: the list ``candidate``;
                ``"interleave"``: every merge of the outer parts of the ``spatial`` chains, then
                every merge of their last axes with the ``reduce`` chains.
            interval: ``(begin, end)``.
            candidate: orders, each of the given axes or of their numbers.
            spatial: chains of axes that keep their order, outermost first.
            reduce: the same for reduction axes.
            default: the permutation to take outside a search. Default: the order given where it is
                legal, else the first; with ``"interleave"`` level by level.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_reorder", name)
        definition = ReorderDefinition.of(name, axes, policy, interval, candidate, spatial, reduce)
        return self._define(definition, default)

    def define_annotate(
        self,
        name: str,
        axes: Sequence[Any],
        policy: str,
        *,
        candidate: Sequence[Sequence[str]] | None = None,
        default: Sequence[str] | None = None,
    ) -> list[VirtualAxis]:
        """Ask which axes to unroll or vectorize; ``cfg[name]`` is an ``AnnotateEntity``.

        Args:
            name: the knob's name.
            axes: the axes, outermost first, or tokens that ``define_split`` returned.
            policy: ``"none"``, or ``unroll`` and ``vec`` joined by ``_``, with ``try_`` in front
                to allow none as well: ``"try_unroll"``, ``"try_unroll_vec"``, ... ; only the last
                axis can be vectorized. ``"candidate"``: the list ``candidate``.
            candidate: lists of ``"none"``, ``"unroll"`` and ``"vec"``, one word per axis.
            default: the words to take outside a search. Default: the last axis vectorized and as
                few unrolled as the policy allows.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_annotate", name)
        return self._define(AnnotateDefinition.of(name, axes, policy, candidate), default)

    def define_knob(self, name: str, candidates: Iterable[Any], default: Any = None) -> None:
        """Ask for one of a list of values; ``cfg[name].val`` is the value.

        Args:
            name: the knob's name.
            candidates: numbers, strings, bools, None or tuples of these; lists become tuples.
            default: the value to take outside a search. Default: the first.

        Raises:
            SpaceError: as :meth:`define_split`.
        """
        _check_name("define_knob", name)
        self._define(OptionDefinition.of(name, candidates), default)

    def add_flop(self, flop: int | float) -> None:
        """Count arithmetic operations of one call that the compute graph does not show.

        Args:
            flop: a number of at least 0; any whole number that an int or a float can hold.

        Raises:
            SpaceError: something else.
        """
        try:
            number = int(flop)
        except (TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"add_flop({flop!r})", "a number is needed") from error
        if number < 0:
            raise SpaceError(f"add_flop({flop!r})", "the number must not be negative")
        self._add_flop(number)

    def axis(self, axis: Any) -> Any:
        """The axis itself; TVM's templates wrap theirs in it."""
        return axis

    reduce_axis = axis


def _check_name(asked: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise SpaceError(f"{asked}({name!r})", "a knob's name must be a non-empty string")
