"""apply_best: inside it templates and tasks take the best configs that logs have for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.db.apply import AnyLog, AppliedLog
from whet.db.choose import Estimated

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.measure.device.names import AnyDevice
    from whet.search_spaces import Config, Workload


def apply_best(
    *logs: AnyLog, device: AnyDevice | None = None, fallback: str = "none"
) -> AppliedLog:
    """A context in which templates and tasks take their best config from a log, or from several.

    ``with whet.apply_best("whet.db"): f = whet.build(task)``; and in code that calls templates,
    ``with whet.apply_best("whet.db"), whet.Target("llvm"): s, args = matmul(1024, 1024, 1024)``.

    The best record of the workload for this target, machine and version of the space comes first.
    Where there is none, ``fallback`` says how far to go; then comes the default config.
    ``f.tuned_by`` says which it was and why. At the end of the ``with`` one
    :class:`whet.db.UntunedWarning` lists the workloads without a record of their own, each with the
    ``whet tune`` command that makes one.

    Nested contexts are asked the inner one first, for each step of that order; so are several logs,
    in the order in which they are given. It is in force in the thread that entered it, not in those
    that this starts, unless they run in a copy of its context (``contextvars.copy_context()``). A
    choice, once made, holds until the ``with`` ends, even if a search finds something better
    meanwhile.

    Args:
        logs: open logs, or the paths or URLs of some that exist; they are only read.
        device: whose records are exact; None: this machine's. Name another machine to accept its
            records as one's own: its fingerprint, as the warning and ``log.devices()`` give it. A
            GPU's name, ``"cuda:1"`` or ``"cuda-emulator"``, names that device.
        fallback: ``"none"``; ``"device"``: also another machine's record for the same target;
            ``"shape"``: also the config of the nearest workload of the same template, if it is
            valid here and the estimate of its time is no longer than the default config's.

    Raises:
        ArgumentError: no log is named, or there is no such fallback.
        LogError: on entering: there is no such log, or none has anything of ``device``.
    """
    return AppliedLog(logs, device, fallback, estimated)


def estimated(workload: Workload, target: Target, config: Config) -> Estimated:
    """The estimated time of a config that nobody measured, beside the default config's.

    Its program is made as ``build`` makes it up to the point where code is generated: what is not
    valid is refused here.

    Args:
        workload: what is built.
        target: canonical.
        config: of the workload's space.
    """
    import numpy as np

    from whet.autotune.features import NAMES, LoopFeatures
    from whet.autotune.tasks.task import Task
    from whet.compiler import driver
    from whet.compiler.passes import run_build_passes
    from whet.search_spaces import get_template

    task = Task(workload, target, get_template(workload.template))
    space = task.config_space
    try:
        schedule, args = task.instantiate(config)
        with target:
            run_build_passes(driver.lower(schedule, args), target)
        points = np.asarray([space.encode(config), space.encode(space.default)], dtype=np.int64)
        rows = LoopFeatures(task).of_points(points)
    except Exception as error:  # a template raises what it likes
        return Estimated(refusal=(str(error).strip() or type(error).__name__).splitlines()[0])
    seconds = np.exp2(rows[:, NAMES.index("estimate")].astype(np.float64))
    if not np.isfinite(seconds).all():
        return Estimated(refusal="its loops cannot be read, so nothing says how long they take")
    return Estimated(float(seconds[0]), float(seconds[1]))
