"""PassContext: how the passes run here: their configuration, which are left out, who looks on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

from whet.compiler import late
from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.passes.names import PASS_NAMES, PassInfo
from whet.compiler.passes.options import DEFAULTS, OPTIONS, checked
from whet.compiler.passes.table import PASSES
from whet.compiler.tir.function import IRModule


class PassContext:
    """Within ``with PassContext(...)``, lowering follows it.

    Args:
        opt_level: passes of a higher level are left out of a :class:`Sequential`; the passes of
            lowering are all of level 0. Not negative.
        required_pass: names of passes that run in any case.
        disabled_pass: names of passes to leave out, with or without ``tir.``. Passes of TVM's that
            are not here, those of Relay among them, may be named, too: what does not run
            anyway is left out.
        instruments: observers between the passes (:mod:`whet.instrument`).
        config: values for keys of :meth:`list_configs`. A key of TVM's that has no meaning here may
            be given the value that asks for nothing, e.g. ``{"tir.use_async_copy": False}``.
        trace: only None; TVM's traces belong to the schedules of its MetaSchedule.

    Raises:
        ArgumentError: for a configuration key or a pass that does not exist, a wrong value, or a
            pass that is both required and disabled.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: None = None,
    ) -> None:
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise ArgumentError(
                f"PassContext(opt_level={opt_level!r})",
                f"the level is a number, not a {type(opt_level).__name__}",
                "keywords: opt_level, required_pass, disabled_pass, instruments, config",
            )
        if opt_level < 0:
            raise ArgumentError(
                f"PassContext(opt_level={opt_level})",
                "a level is not negative",
                "0 leaves out every pass of a higher level in a Sequential",
            )
        if trace is not None:
            raise ArgumentError(
                f"PassContext(trace={type(trace).__name__})",
                "there is no MetaSchedule whose traces it would be",
                "leave it out; schedule.trace is the record of a te schedule",
            )
        self.opt_level = opt_level
        self.config: dict[str, Any] = {**DEFAULTS, **checked({} if config is None else config)}
        extra = [p.info.name for _, p in self.config["tir.add_lower_pass"]]
        self.required_pass = _names("required_pass", required_pass, extra)
        self.disabled_pass = _names("disabled_pass", disabled_pass, extra)
        both = sorted({*self.required_pass} & {*self.disabled_pass})
        if both:
            raise ArgumentError(
                f"PassContext(required_pass=[{both[0]!r}], disabled_pass=[{both[0]!r}])",
                "a pass cannot be both",
                "leave it out of one of them",
            )
        self.instruments: list[Any] = _instruments(instruments)
        self._tokens: list[Token] = []

    @staticmethod
    def current() -> PassContext:
        """The context in force; the default one outside any."""
        found = _CURRENT.get()
        if found is None:
            found = PassContext()
            _CURRENT.set(found)
        return found

    @staticmethod
    def list_configs() -> dict[str, dict[str, Any]]:
        """Every configuration key with its ``type``, its ``default`` and its ``meaning``."""
        return {
            key: {"type": o.kind.__name__, "default": o.default, "meaning": _meaning(o)}
            for key, o in OPTIONS.items()
        }

    def enabled(self, info: PassInfo) -> bool:
        """True for a pass that takes part, by its name and level."""
        name = info.short
        if name in self.disabled_pass:
            return False
        return name in self.required_pass or self.opt_level >= info.opt_level

    # instruments

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Other instruments from here on: the present ones leave, the new ones enter."""
        new = _instruments(instruments)
        self._exit_instruments()
        self.instruments = new
        self._enter_instruments()

    def before(self, mod: IRModule, info: PassInfo) -> bool:
        """Tell the instruments that a pass is to run; False if one of them is against it."""
        required = info.short in self.required_pass
        if not required and not all([i.should_run(mod, info) for i in self.instruments]):
            return False
        for i in self.instruments:
            i.run_before_pass(mod, info)
        return True

    def after(self, mod: IRModule, info: PassInfo) -> None:
        """Tell the instruments that a pass has run."""
        for i in self.instruments:
            i.run_after_pass(mod, info)

    def _enter_instruments(self) -> None:
        entered: list[Any] = []
        try:
            for i in self.instruments:
                i.enter_pass_ctx()
                entered.append(i)
        except BaseException:
            self.instruments = []  # an instrument that fails is not trusted with a pass
            for i in entered:
                i.exit_pass_ctx()
            raise

    def _exit_instruments(self) -> None:
        try:
            for i in self.instruments:
                i.exit_pass_ctx()
        except BaseException:
            self.instruments = []
            raise

    def __enter__(self) -> PassContext:
        self._enter_instruments()
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _CURRENT.reset(self._tokens.pop())
        self._exit_instruments()


_METHODS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


def _instruments(given: Sequence[Any] | None) -> list[Any]:
    found = list(given or ())
    for i in found:
        if not all(hasattr(i, m) for m in _METHODS):
            raise ArgumentError(
                f"PassContext(instruments=[{i!r}])",
                f"a {type(i).__name__} is no instrument",
                "inherit from instrument.PassInstrument or decorate its class with "
                "instrument.pass_instrument",
            )
    return found


def _meaning(option: Any) -> str:
    inner = "; ".join(f"{k}={f.default!r}: {f.meaning}" for k, f in option.fields.items())
    return f"{option.meaning} ({inner})" if inner else option.meaning


def _names(argument: str, given: Sequence[str] | None, extra: Sequence[str]) -> tuple[str, ...]:
    """The names of passes without ``tir.``."""
    if given is None:
        return ()
    if not isinstance(given, (str, list, tuple, set, frozenset)):
        raise ArgumentError(
            f"PassContext({argument}={given!r})",
            f"a {type(given).__name__} is no list of names",
            f'{argument}=["tir.LoopPartition"]',
        )
    known = {*PASS_NAMES, *(n.removeprefix("tir.") for n in extra)}
    out = []
    for name in [given] if isinstance(given, str) else given:
        short = str(name).removeprefix("tir.")
        relay = late.ways_out("relay.transform").get(short.removeprefix("relay."))
        why = late.ways_out("tir.transform").get(short, relay)
        if short in known or (why and argument == "disabled_pass"):
            out.append(short)
            continue
        request = f"PassContext({argument}=[{name!r}])"
        if why:
            raise ArgumentError(request, f"there is no such pass here: {why}")
        lowering = dict.fromkeys(step.name for step in PASSES)
        hint = f"{nearest(short, known)}passes: {', '.join(lowering)}"
        raise ArgumentError(request, "there is no such pass", hint)
    return tuple(out)


_CURRENT: ContextVar[PassContext | None] = ContextVar("whet_pass_context", default=None)
