"""Logs in force: inside ``with apply_best(...)`` templates and tasks take their best configs.

A choice is made once for each workload and target of a ``with`` and holds until its end, whatever
is written to the log meanwhile: one build context, one program for each call. Entered again, it
reads the log anew.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from whet.compiler.errors import ArgumentError, LogError
from whet.compiler.target import Target
from whet.db.choose import Choice, Estimate, Source, check_fallback, choose
from whet.db.log import TuningLog
from whet.db.quick.place import place_of
from whet.db.values.identity import Location, device_key, device_name
from whet.measure.device.names import AnyDevice, names_device
from whet.search_spaces import Config, Workload, space_of
from whet.search_spaces.template.config_scope import (
    Resolved,
    put_in_force,
    resolvers_in_force,
    take_out_of_force,
)
from whet.search_spaces.values.counted import counted

AnyLog = TuningLog | Location


class UntunedWarning(UserWarning):
    """Workloads were built with configs that are not their own, for want of a record."""


class AppliedLog:
    """The context manager of :func:`whet.apply_best`.

    Args:
        logs: open ones, or the paths or URLs of some that exist; they are only read.
        device: whose records are exact; None: this machine's.
        fallback: how far to go where there is none, see :mod:`whet.db.choose`.
        estimate: of a near workload's config; None: none is taken.
        report: is given the logs' places and all choices at the end; None: a warning lists those
            without a record.

    One object may be entered several times, also in several threads at once.

    Raises:
        ArgumentError: there is no log, or no such fallback.
    """

    def __init__(
        self,
        logs: Sequence[AnyLog],
        device: AnyDevice | None = None,
        fallback: str = "none",
        estimate: Estimate | None = None,
        report: Callable[[str, Sequence[Choice]], None] | None = None,
    ) -> None:
        if not logs:
            raise ArgumentError(
                "apply_best()", "no log is named", 'give one or several: apply_best("whet.db")'
            )
        self.given = tuple(logs)
        self.device = device
        self.fallback = check_fallback(fallback)
        self.estimate = estimate
        self._report = report

    @property
    def places(self) -> list[str]:
        """Where its logs are, as a warning shows it: without passwords."""
        return [
            log.location if isinstance(log, TuningLog) else place_of(log).shown
            for log in self.given
        ]

    @property
    def shown(self) -> str:
        """The call that made it, as a warning shows it."""
        return f"apply_best({', '.join(map(repr, self.places))})"

    def __enter__(self) -> AppliedLog:
        put_in_force(_Scope(self))
        return self

    def __exit__(self, *exc: object) -> None:
        scope = self._scope()
        if scope is None:  # it was ended in another thread than it was entered in
            raise self._not_in_force()
        take_out_of_force(scope)
        scope.close()
        if self._report is not None:
            self._report(", ".join(self.places), scope.choices)
        elif said := scope.said():
            warnings.warn(said, UntunedWarning, stacklevel=2)

    def resolve(self, workload: Workload) -> Config | None:
        """The best config for a workload under the current target, or None for its default.

        Raises:
            LogError: the log cannot be read, or is not in force here.
        """
        return self.choose(workload).config

    def choose(self, workload: Workload) -> Choice:
        """:meth:`resolve` with the record that the config is of, and why it is that one."""
        scope = self._scope()
        if scope is None:
            raise self._not_in_force()
        return scope.choice(workload)

    def _scope(self) -> _Scope | None:
        """The innermost ``with`` of this object in this thread."""
        return next((scope for scope in _scopes() if scope.owner is self), None)

    def _not_in_force(self) -> LogError:
        return LogError(
            self.shown, "it is not in force in this thread", "use it in a `with` of this thread"
        )


class _Scope:
    """One ``with`` of an applied log: the resolver that is in force inside it."""

    def __init__(self, owner: AppliedLog) -> None:
        self.owner = owner
        self._outer = tuple(_scopes())
        self._choices: dict[tuple[str, str], tuple[Choice, Resolved]] = {}
        self._target: tuple[Target | None, str] = (None, "")
        # A template may call another one while its space is collected.
        self._lock = threading.RLock()
        self._ended = False
        with ExitStack() as stack:
            logs = tuple(
                log
                if isinstance(log, TuningLog)
                else stack.enter_context(TuningLog(log, write=False))
                for log in owner.given
            )
            self.source = Source(logs, owner.device, owner.fallback, owner.estimate)
            self._check_device()
            self._stack = stack.pop_all()

    def _check_device(self) -> None:
        """Refuse a machine's fingerprint of which no log has anything."""
        device = self.owner.device
        if not isinstance(device, str | dict) or names_device(device):
            return
        known = {device_key(d): d for log in self.source.logs for d in log.devices()}
        if device_key(device) not in known:
            request = f"{self.owner.shown[:-1]}, device={device_key(device)!r})"
            machines = ", ".join(map(device_name, known.values())) or "(none)"
            one = len(self.source.logs) == 1
            none = f"the {'log has' if one else 'logs have'} nothing of that machine"
            raise LogError(request, none, f"machines in {'it' if one else 'them'}: {machines}")

    def __call__(self, workload: Workload) -> Resolved | None:
        """The config and whence; the innermost scope answers for those around it, too."""
        innermost = next(iter(_scopes()), None)
        return self._found(workload)[1] if innermost is self else None

    def choice(self, workload: Workload) -> Choice:
        """The choice for a workload under the current target."""
        return self._found(workload)[0]

    def _found(self, workload: Workload) -> tuple[Choice, Resolved]:
        target = Target.current()
        last, text = self._target
        if target is not last or not text:
            text = str(target or "llvm")
            self._target = (target, text)
        found = self._choices.get((workload.key, text))
        return self._choose(workload, target, text) if found is None else found

    def _choose(
        self, workload: Workload, target: Target | None, text: str
    ) -> tuple[Choice, Resolved]:
        with self._lock:
            if self._ended:
                raise LogError(
                    f"{self.owner.shown} for {workload}",
                    "its `with` has ended",
                    "wait inside it for threads that run in a copy of its context",
                )
            known = self._choices.get((workload.key, text))  # another thread was quicker
            if known is not None:
                return known
            canonical = (target or Target("llvm")).canonical()
            sources = [self.source, *(scope.source for scope in self._outer)]
            choice = choose(sources, workload, canonical, space_of(workload))
            found = choice, Resolved(choice.config, choice.tuned_by)
            self._choices[workload.key, text] = found
            return found

    def close(self) -> None:
        """End it, and close what it opened."""
        with self._lock:
            self._ended = True
            self._stack.close()

    @property
    def choices(self) -> list[Choice]:
        """All that were made."""
        return [choice for choice, _ in self._choices.values()]

    def said(self) -> str:
        """The workloads that have no record of their own, each with what to do; "" for none."""
        defaults, borrowed = [], []
        for choice in self.choices:
            by = choice.tuned_by
            if by.how == "default":
                defaults += [
                    f"{by.workload}: {by.why}; {choice.way_out}",
                    f"  {self._tune(choice)}",
                ]
            elif by.how != "exact":
                borrowed += [f"{choice.workload}: {by.why}", f"  {self._tune(choice)}"]
        if not defaults and not borrowed:
            return ""
        parts = []
        if defaults:
            count = len(defaults) // 2
            number = "1 workload has" if count == 1 else f"{count} workloads have"
            parts.append(f"{number} no record that applies; default configs were used")
        if borrowed:
            also = " also" if defaults else ""
            number = counted(len(borrowed) // 2, "workload")
            parts.append(f"{number}{also} took another device's or shape's config")
        return "\n  ".join([f"{self.owner.shown}: {'; '.join(parts)}", *defaults, *borrowed])

    def _tune(self, choice: Choice) -> str:
        """The command that tunes what was chosen for."""
        from whet.db.tune_command import tune_command

        target, log = Target(choice.tuned_by.target), self.source.logs[0].location
        return tune_command(choice.workload, target, self.owner.device, log)


def _scopes() -> list[_Scope]:
    """The scopes in force in this thread, the innermost first."""
    return [one for one in resolvers_in_force() if isinstance(one, _Scope)]
