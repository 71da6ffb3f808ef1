"""apply_best: inside it a template runs under the best config that a log has for this machine."""

from __future__ import annotations

import warnings
from contextlib import ExitStack

from whet.compiler.errors import LogError
from whet.db.log import TuningLog
from whet.db.missing import explain
from whet.db.values.identity import Location, device_key, device_name
from whet.measure.device.names import AnyDevice, names_device
from whet.search_spaces import Config, Workload, space_of, using_resolver


class UntunedWarning(UserWarning):
    """Workloads were built with their default configs, for want of a record that applies."""


def apply_best(log: TuningLog | Location, *, device: AnyDevice | None = None) -> AppliedLog:
    """A context in which templates take their best config from a log.

    ``with whet.apply_best("whet.db"), whet.Target("llvm"): s, args = matmul(1024, 1024, 1024)``. A
    workload without a record that applies (same target, same machine, same version of the space)
    gets its default config, and one :class:`UntunedWarning` at the end of the ``with`` says which,
    why, and what to do.

    Args:
        log: a log, or the path or URL of one that exists; it is only read.
        device: whose records to apply; None: this machine's. Name another machine to accept its
            records here: its fingerprint, as the warning and ``log.devices()`` give it. A GPU's
            name, ``"cuda:1"`` or ``"cuda-emulator"``, names that device.

    Raises:
        LogError: there is no such log, or it has nothing of ``device``.
    """
    return AppliedLog(log, device)


class AppliedLog:
    """The context manager of :func:`apply_best`, and the resolver that it puts in force."""

    def __init__(self, log: TuningLog | Location, device: AnyDevice | None = None) -> None:
        self._given = log
        self._device = device
        self._log: TuningLog | None = None
        self._stack = ExitStack()
        self._missed: dict[tuple[str, str], str] = {}

    def __enter__(self) -> AppliedLog:
        with ExitStack() as stack:
            if isinstance(self._given, TuningLog):
                self._log = self._given
            else:
                self._log = stack.enter_context(TuningLog(self._given, write=False))
            if isinstance(self._device, str | dict) and not names_device(self._device):
                known = self._log.devices()
                if device_key(self._device) not in map(device_key, known):
                    raise LogError(
                        f"apply_best({self._log.location!r}, device={device_key(self._device)!r})",
                        "the log has nothing of that machine",
                        "machines in it: " + (", ".join(map(device_name, known)) or "(none)"),
                    )
            stack.enter_context(using_resolver(self.resolve))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        self._log = None
        missed, self._missed = self._missed, {}
        if missed:
            shown = self._given.location if isinstance(self._given, TuningLog) else self._given
            number = "1 workload has" if len(missed) == 1 else f"{len(missed)} workloads have"
            head = f"apply_best({str(shown)!r}): {number} no record that applies; "
            lines = [f"{head}default configs were used", *missed.values()]
            lines.append(f"(tune with log={str(shown)!r} to have them here)")
            warnings.warn("\n  ".join(lines), UntunedWarning, stacklevel=2)

    def resolve(self, workload: Workload) -> Config | None:
        """The best config for a workload under the current target, or None for its default.

        Raises:
            LogError: the log cannot be read.
        """
        from whet.compiler.target import Target

        if self._log is None:
            raise LogError("apply_best(...)", "it is not in force", "use it in a `with`")
        target = (Target.current() or Target("llvm")).canonical()
        space = space_of(workload)
        config = self._log.best_config(workload, target, space, self._device)
        if config is None and (key := (workload.key, str(target))) not in self._missed:
            named = f"{workload.template!r}, args={workload.args!r}, target={target.kind!r}"
            tune = f"whet.tune(whet.create_task({named}))"
            why, way_out = explain(
                self._log, workload, target, space.fingerprint, self._device, tune
            )
            self._missed[key] = f"{workload}: {why}; {way_out}"
        return config
