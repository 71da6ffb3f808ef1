"""The error hierarchy: an error says what was asked, why it cannot be, and the way out.

Text is built when shown, never when raised: a search throws thousands of these away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Text = str | Callable[[], str]


class WhetError(RuntimeError):
    """Base of every error that Whet raises on purpose.

    Args:
        request: the request, e.g. ``"split(C, axis=k, factor=0)"``.
        why: why it cannot be, with the numbers.
        state: the state as it stands or the way out; printed indented on lines of its own.

    Each part is a string or a function that makes one when the error is shown.
    """

    def __init__(self, request: Text, why: Text = "", state: Text = "") -> None:
        super().__init__(request, why, state)

    def __str__(self) -> str:
        request, why, state = (part() if callable(part) else part for part in self.args)
        text = f"{request}: {why}" if why else str(request)
        if state:
            text += "".join(f"\n  {line}" for line in state.splitlines())
        return text

    def __reduce__(self) -> tuple:
        """Errors cross processes as their finished text."""
        return type(self), tuple(part() if callable(part) else part for part in self.args)


TVMError = WhetError


class ScheduleError(WhetError, ValueError):
    """A schedule primitive was asked for something that the schedule cannot do."""


class ArgumentError(WhetError, ValueError):
    """A function or a kernel was called with wrong arguments."""


class LowerError(WhetError):
    """A schedule could not be lowered to loop IR."""


class PrunedError(LowerError):
    """A candidate exceeds what the target has, known before its code is compiled or run.

    Args:
        asked, why, state: as of every error.
        reason: the word by which a search counts it, e.g. ``"registers"``.
    """

    def __init__(self, request: Text, why: Text = "", state: Text = "", reason: str = "") -> None:
        super().__init__(request, why, state)
        self.reason = reason

    def __reduce__(self) -> tuple:
        kind, texts = super().__reduce__()
        return kind, (*texts, self.reason)


class CodegenError(WhetError):
    """Loop IR could not be turned into machine code."""


class TargetError(WhetError, ValueError):
    """A target or a device that does not exist, is misspelt or is not on this machine."""


class SpaceError(WhetError):
    """A search space, a knob, a config or a template is wrong."""


class MeasureError(WhetError):
    """Building or measuring candidates failed as a whole (one failed candidate is a result)."""


class DeviceLostError(MeasureError):
    """A device that measured does not answer any more, in a new process neither."""


class WorkerLostError(MeasureError):
    """A worker is lost, or its machine: another one takes what it had in hand."""


class LogError(WhetError):
    """A tuning log cannot be opened, read or written."""


class KernelError(WhetError):
    """A kernel ended early: an assertion in it does not hold, e.g. an index was out of range."""


class OutOfMemoryError(WhetError, MemoryError):
    """There is no memory for what a kernel or an array needs."""


class ArtifactError(WhetError):
    """A compiled artifact cannot be written, read or loaded."""


class MissingName(ArgumentError, AttributeError):
    """A name of TVM's that is not here; the error says what to use instead."""


class MissingModule(ArgumentError, ImportError):
    """A module of TVM's that is not here; the error says what to use instead."""


def nearest(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``"did you mean 'x'? "`` for the known name that is close to ``name``, or nothing."""
    import difflib

    close = difflib.get_close_matches(str(name), list(known), 1, cutoff)
    return f"did you mean {close[0]!r}? " if close else ""
