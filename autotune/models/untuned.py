"""The log of a model: one warning for all kernels that have no record, and the command for all."""

from __future__ import annotations

import os
import shlex
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import TargetError
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.target import Target
from whet.db.apply import AnyLog, AppliedLog, UntunedWarning
from whet.db.choose import Choice
from whet.db.missing import NEVER
from whet.db.tune_command import target_text
from whet.measure.device.identity import device_of
from whet.search_spaces.values.counted import counted


@dataclass(frozen=True)
class TuneModel:
    """How a model is tuned.

    Attributes:
        file: the model's; None: it is no file.
        shapes: as of :func:`whet.compile`.
        target: as it was named; None: it was not.
        device: where it runs, by its name; "": by the target.
    """

    file: str | None
    shapes: Any
    target: Any
    device: str = ""

    def command(self, log: str) -> str:
        """``whet tune model.onnx ...``, or calls of Python where there is no file.

        Args:
            log: the path or the URL.
        """
        if self.file is None or not isinstance(self.shapes, Mapping | None):
            more = ", ..." if self.shapes else ""
            return (
                f"tasks, counts = zip(*whet.model_tasks(model{more})); "
                f"whet.tune(tasks, weights=counts, log={log!r})"
            )
        words = ["whet", "tune", self.file, *shape_words(self.shapes)]
        if self.target is not None:
            text = self.target if isinstance(self.target, str) else target_text(self.target)
            words += [] if text == "llvm" else ["--target", text]
        if self.device:
            words += ["--device", self.device]
        return shlex.join([*words, "--log", log])


def shape_words(shapes: Mapping[str, Any] | None) -> list[str]:
    """Sizes as a command line takes them: ``--shape batch=1 --shape x=1,3,32``."""
    words = []
    for name, given in (shapes or {}).items():
        sizes = given if isinstance(given, Sequence) else (given,)
        said = [x.dots if isinstance(x, Dynamic) else str(x) for x in sizes]
        words += ["--shape", f"{name}={','.join(said)}"]
    return words


def log_of_model(log: AnyLog, tuning: TuneModel, target: Target, stacklevel: int = 3) -> AppliedLog:
    """A log in force whose warning is of a model: once, with the command that tunes all of it.

    Args:
        log: it, its path, or its URL.
        tuning: how the model is tuned.
        target: canonical.
        stacklevel: of the warning; 3: the `with`.
    """

    def report(shown: str, choices: Sequence[Choice]) -> None:
        default = [c for c in choices if c.tuned_by.how == "default"]
        if not default:
            return
        number = f"{len(default)} of {counted(len(choices), 'kernel')}"
        have = "which has the default config" if len(default) == 1 else "which have default configs"
        whys = Counter(c.tuned_by.why for c in default if not c.tuned_by.why.startswith(NEVER))
        reasons = [f"{many} of these: {why}" for why, many in whys.most_common()]
        lines = [f"{shown} has no trial for {number}, {have}", *reasons, tuning.command(shown)]
        warnings.warn("\n  ".join(lines), UntunedWarning, stacklevel=stacklevel)

    return AppliedLog((log,), _reachable(target, tuning.device), report=report)


def _reachable(target: Target, device: str) -> str | None:
    """The device whose records count; None: the target's first, also where this one is not here."""
    if not device or target.kind != "cuda":
        return None
    try:
        device_of(target, device)
    except TargetError:
        return None
    return device


def file_of(model: Any) -> str | None:
    """The path of a model's file; None for what is none."""
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None
