"""The protocol of rules: the groups that one can schedule, its knobs; rules that compete.

    rule=gemm         tile, order, ... are searched; reduction.size, ... have one choice each
    rule=reduction    reduction.size, ... are searched; tile, order, ... have one choice each

A rule's knobs are whatever it defines while it schedules the graph. So each of those that compete
schedules the graph once with its defaults, when the space is collected, and what it defines is
recorded. From then on all recorded knobs are defined before any rule runs, whichever is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from whet.compiler.errors import SpaceError
from whet.compiler.homes import imported
from whet.compiler.target import Target
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.stages import Group
from whet.search_spaces.space.config_space import ConfigSpace
from whet.search_spaces.values.builtin import (
    ONLY_FOR_OF_KIND,
    RIVALS_OF_KIND,
    RULES,
    RULES_OF_KIND,
)

KNOB = "rule"


class Rule(Protocol):
    """A way to schedule a group of stages.

    Rules are tried in the order of the table of their target, for CPUs
    :data:`whet.search_spaces.rules.cpu.table.RULES`. The first one that applies to a group
    schedules it; where later ones say that they may be faster (``competes``), the knob ``rule``
    chooses, and each rule's knobs but the chosen one's are held at their defaults
    (:func:`choose_rules`). A new rule is a file, its home in the table, and a test. Rules hold no
    state. For each group, once per config:

    1. ``rewrite``, producers before consumers, while there is no schedule yet;
    2. stages of role ``"inline"``, and those consumers of a group that are not its last, are
       inlined;
    3. ``schedule``, producers before consumers.

    In both steps a rule defines its knobs and reads them: ``group.choose("tile", sizes, first)``. A
    knob must be defined whatever the config is: only what is done with it depends on the config.
    What a rule does not touch has default loops.
    """

    def applies(self, group: Group) -> bool:
        """True if the rule can schedule the group; structure and target, no config is known."""
        ...

    def competes(self, group: Group) -> bool:
        """True if it may be faster than a rule before it in the table that applies, too.

        Called where it applies itself. Rules whose homes are in the table's ``RIVALS`` are asked.
        """
        return False

    @property
    def is_extra(self) -> bool:
        """True if the rule that would have the group without it competes with it, and checks it.

        It may use what a user declared, which nothing else would find wrong: where it is the
        default, the numbers of all configs are checked by the other rule's default.
        """
        return False

    def cycles(self, group: Group) -> float | None:
        """Cycles of its default schedule by an estimate; None: there is none.

        Of the rules that compete for a group the one of the fewest cycles is the default, the first
        of the table where one has no estimate.
        """
        return None

    def rewrite(self, group: Group) -> Tensor | None:
        """Compute the anchor in another way, e.g. from a packed operand.

        Args:
            group: its anchor's op reads the tensors as they are by now (producers may have been
                rewritten). ``group.note`` leaves what ``schedule`` must know, e.g. the packed
                tensor.

        Returns:
            The tensor that takes the anchor's place: same shape, same dtype. ``schedule`` finds its
            operation as ``group.anchor.op``. None, the default: the anchor stays as it is.
        """
        return None

    def schedule(self, s: Schedule, group: Group) -> None:
        """Schedule all stages of the group but those that are inlined."""
        ...


Chosen = list[tuple[Group, Rule]]
_Schedule = Callable[[Chosen], object]


def rule_of(group: Group, target: Target) -> Rule:
    """The first rule that applies to a group; the last of them applies to every group."""
    return contenders(group, target)[0]


def contenders(group: Group, target: Target) -> tuple[Rule, ...]:
    """The first rule that applies to a group, then those that may be faster or are there anyway."""
    home = RULES_OF_KIND.get(str(target.kind), RULES)
    return group.once((home, target), lambda: tuple(_contenders(group, home)))


def _contenders(group: Group, home: str) -> Iterable[Rule]:
    # imported one by one: a process that only looks a config up waits for each module
    only_for = imported(ONLY_FOR_OF_KIND[home]) if home in ONLY_FOR_OF_KIND else {}
    homes = (x for x in imported(home) if x not in only_for or only_for[x](group))
    rules = (imported(one)() for one in homes)
    first = next(rule for rule in rules if rule.applies(group))
    yield first
    if first.is_extra:
        yield next(rule for rule in rules if rule.applies(group))
    rivals = imported(RIVALS_OF_KIND[home]) if home in RIVALS_OF_KIND else {}
    for one in homes:
        if one in rivals and rivals[one](group):
            rule = imported(one)()
            if rule.applies(group) and rule.competes(group):
                yield rule


def name_of(rule: Rule) -> str:
    """A rule as the knob names it: ``GpuMultiKernel`` is ``"multikernel"``."""
    return type(rule).__name__.removeprefix("Gpu").lower()


@dataclass(frozen=True, eq=False)
class _Contender:
    """One of the rules that compete for a group.

    Attributes:
        rule: the rule. name: as the knob has it. prefix: of its knobs.
        space: the knobs and constraints that it defines.
        memo: what it works out about the group.
    """

    rule: Rule
    name: str
    prefix: str
    space: ConfigSpace = field(default_factory=ConfigSpace)
    memo: dict[Hashable, Any] = field(default_factory=dict)

    def group(self, group: Group, cfg: Any) -> Group:
        """The group as the rule sees it."""
        return replace(group, prefix=self.prefix, cfg=cfg, memo=self.memo, notes={})


@dataclass(frozen=True, eq=False)
class _Contest:
    """The rules that compete for a group, and the place of the default one among them."""

    knob: str
    contenders: tuple[_Contender, ...]
    default: int


def choose_rules(groups: Sequence[Group], target: Target, schedule: _Schedule) -> Chosen:
    """The rule of each group, and the group as it sees it; defines the knobs of all that compete.

    Args:
        groups: of a graph, under a config.
        target: what is compiled for.
        schedule: makes the graph's schedule by rules; called the first time, for what they define.
    """
    contests = _contests(groups, target, schedule)
    return [
        (group, rule_of(group, target)) if contest is None else _chosen(group, contest)
        for group, contest in zip(groups, contests)
    ]


def _contests(
    groups: Sequence[Group], target: Target, schedule: _Schedule
) -> list[_Contest | None]:
    """What competes for each group; None where one rule has it to itself."""

    def make() -> list[_Contest | None]:
        found = [_contest(group, contenders(group, target)) for group in groups]
        for k in range(max((len(one.contenders) for one in found if one), default=0)):
            schedule([_recorded(group, one, k, target) for group, one in zip(groups, found)])
        return found

    return groups[0].once((KNOB, target), make) if groups else []


def _contest(group: Group, rules: tuple[Rule, ...]) -> _Contest | None:
    if len(rules) < 2:
        return None
    found: list[_Contender] = []
    for rule in rules:  # the first one's knobs have the names that they would have alone
        prefix = f"{group.prefix}{name_of(rule)}." if found else group.prefix
        memo: dict[Hashable, Any] = {} if found else group.memo
        found.append(_Contender(rule, name_of(rule), prefix, memo=memo))
    costs = [one.rule.cycles(one.group(group, None)) for one in found]
    known = [cost for cost in costs if cost is not None]
    default = costs.index(min(known)) if costs[0] is not None else 0
    return _Contest(group.knob(KNOB), tuple(found), default)


def _recorded(group: Group, contest: _Contest | None, k: int, target: Target) -> tuple[Group, Rule]:
    """A group and its ``k``-th rule, which defines its knobs in a space of its own."""
    if contest is None:
        return replace(group, cfg=ConfigSpace(), notes={}), rule_of(group, target)
    if k >= len(contest.contenders):  # recorded already
        one = contest.contenders[0]
        return one.group(group, ConfigSpace()), one.rule
    one = contest.contenders[k]
    return one.group(group, one.space), one.rule


def _chosen(group: Group, contest: _Contest) -> tuple[Group, Rule]:
    """Define the knobs of all rules of a contest; the one that the config in force chooses."""
    cfg, names = group.cfg, [one.name for one in contest.contenders]
    cfg.define_knob(contest.knob, names, names[contest.default])
    for one in contest.contenders:
        for name, knob in one.space.knobs.items():
            quick = None if knob.quick is None else [knob.choices[at] for at in knob.quick]
            cfg.define_knob(name, knob.choices, knob.choices[knob.default], quick=quick)
        for constraint in one.space.constraints:
            cfg.multi_filter(constraint.function)
        for name, choice in one.space.default.choices:
            cfg.multi_filter(_Held(contest.knob, one.name, name, choice))
    for name in names[: contest.default] + names[contest.default + 1 :]:
        cfg.suggest({contest.knob: name})
    if contest.contenders[contest.default].rule.is_extra:
        checks = next(one for one in contest.contenders if not one.rule.is_extra)
        cfg.check_by({contest.knob: checks.name})
    chosen = contest.contenders[names.index(cfg[contest.knob].val)]
    return chosen.group(group, _Defined(cfg, chosen)), chosen.rule


class _Defined:
    """A config as a rule sees it whose knobs are defined already.

    Args:
        cfg: the config in force.
        contender: whose knobs the rule asks for.
    """

    def __init__(self, cfg: Any, contender: _Contender) -> None:
        self._cfg = cfg
        self._contender = contender

    def define_knob(
        self, name: str, candidates: Iterable[Any], default: Any = None, *, quick: Any = None
    ) -> None:
        """Nothing: the knob was defined as the rule did at first."""
        if name not in self._contender.space.knobs:
            raise SpaceError(
                f"define_knob({name!r})",
                f"the rule {self._contender.name} did not define this knob with its defaults",
                "a rule must define the same knobs whatever the config is",
            )

    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        """Nothing: it holds already."""

    def __getitem__(self, name: str) -> Any:
        return self._cfg[name]


@dataclass(frozen=True)
class _Held:
    """A constraint: a knob has one choice unless its rule is chosen."""

    knob: str
    rule: str
    other: str
    only: Any

    def __call__(self, view: Any) -> bool:
        return view[self.knob].val == self.rule or view[self.other].val == self.only

    def __repr__(self) -> str:
        return f"{self.other} has no effect without {self.knob}={self.rule}"
