"""The configuration keys of :class:`PassContext`, checked; a pass's own stand in its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.passes.contract.option import Option
from whet.compiler.passes.names import PassInfo
from whet.compiler.passes.table import PASSES

#: every key with its meaning; the names are TVM's, and so are the defaults where nothing is said
OPTIONS: dict[str, Option] = {
    "tir.add_lower_pass": Option(
        list, [], "(phase, pass) pairs: passes that run at the end of phase 0, 1, 2 or 3 of lower()"
    ),
    "tir.noalias": Option(bool, True, "kernels are compiled as if no two arguments overlap"),
    **{key: option for step in PASSES for key, option in step.options.items()},
}

_NO_FLOW = "values in buffers are not followed"
_NO_COPIES = "copies into shared memory go through registers"
#: TVM's keys that have no meaning here, and why
NO_MEANING: dict[str, str] = {
    "tir.is_entry_func": "a module's entry is chosen by name",
    "tir.detect_global_barrier": "the blocks of a grid cannot wait for each other",
    "tir.use_async_copy": _NO_COPIES,
    "tir.merge_async_commit_queue_scope": _NO_COPIES,
    "tir.InjectDoubleBuffer": "a double-buffered loop keeps one body, whose steps take turns",
    "tir.instrument_lwp": "there is no lightweight profiler; time a kernel with time_evaluator",
    "tir.lwp_disable_func_prof": "there is no lightweight profiler",
    "tir.lwp_max_depth": "there is no lightweight profiler",
    "tir.lwp_min_height": "there is no lightweight profiler",
    "tir.reset_start_id": "there is no lightweight profiler",
    "tir.dma_bypass_cache": "Hexagon is no target",
    "tir.vtcm_capacity": "Hexagon is no target",
    "tir.usmp.enable": "microcontrollers are no target",
    "tir.usmp.algorithm": "microcontrollers are no target",
    "tir.usmp.use_workspace_io": "microcontrollers are no target",
    "tir.enable_debug": "there is no debugging information of the loop IR",
    "tir.RemoveNoOp": _NO_FLOW,
    "tir.ReduceBranchingThroughOvercompute": _NO_FLOW,
    "tir.HoistExpression": "expressions leave loops in the generator, by value numbering",
    "relay.FuseOps.max_depth": "there is no Relay",
    "relay.backend.use_auto_scheduler": "there is no Relay",
    "relay.backend.use_meta_schedule": "there is no Relay",
    "relay.backend.use_meta_schedule_dispatch": "there is no Relay",
}
#: switches among them: turned off, they ask for what happens anyway
_OFF = frozenset({
    "tir.detect_global_barrier", "tir.use_async_copy", "tir.merge_async_commit_queue_scope",
    "tir.instrument_lwp", "tir.lwp_disable_func_prof", "tir.reset_start_id", "tir.usmp.enable",
    "tir.usmp.use_workspace_io", "tir.enable_debug", "tir.is_entry_func",
    "relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule",
    "relay.backend.use_meta_schedule_dispatch",
})  # fmt: skip
_NO_MEANING_INSIDE = {
    "tir.Simplify": {
        "propagate_knowns_to_prove_conditional": _NO_FLOW,
        "propagate_knowns_to_simplify_expressions": _NO_FLOW,
    }
}

DEFAULTS: dict[str, Any] = {key: option.default for key, option in OPTIONS.items()}


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values given, dictionaries filled up with their defaults.

    Raises:
        ArgumentError: for a key that does not exist or has no meaning here, or a wrong value.
    """
    if not isinstance(config, Mapping):
        raise ArgumentError(
            f"PassContext(config={config!r})",
            f"a {type(config).__name__} is no dictionary",
            'config={"tir.disable_vectorize": True}',
        )
    out: dict[str, Any] = {}
    for key, value in config.items():
        request = f"PassContext(config={{{key!r}: ...}})"
        # a switch that is off asks for nothing
        if key not in _OFF or not isinstance(value, int) or value:
            out[key] = _value(key, value, _find(request, key, OPTIONS, NO_MEANING))
    return out


def _find(
    request: str, key: str, options: Mapping[str, Option], absent: Mapping[str, str]
) -> Option:
    if key in options:
        return options[key]
    if key in absent:
        raise ArgumentError(request, f"the key has no meaning here: {absent[key]}", "leave it out")
    hint = f"{nearest(key, options)}keys: {', '.join(options)}"
    raise ArgumentError(request, "unknown key", hint)


def _value(key: str, value: Any, option: Option) -> Any:
    request = f"PassContext(config={{{key!r}: {value!r}}})"
    if key == "tir.add_lower_pass":
        return _lower_passes(request, value)
    if option.kind is dict:
        if not isinstance(value, Mapping):
            raise ArgumentError(
                request,
                f"the value is a {type(value).__name__}, not a dictionary",
                "its keys: " + ", ".join(option.fields),
            )
        given = {}
        for name, inner in value.items():
            where = f"PassContext(config={{{key!r}: {{{name!r}: ...}}}})"
            found = _find(where, name, option.fields, _NO_MEANING_INSIDE.get(key, {}))
            given[name] = _value(f"{key}.{name}", inner, found)
        return {**option.default, **given}
    # a bool is an int to Python, but not to a reader
    exact = isinstance(value, option.kind) and isinstance(value, bool) == (option.kind is bool)
    if not exact and not (option.kind is bool and value in (0, 1) and isinstance(value, int)):
        raise ArgumentError(
            request,
            f"the value is a {type(value).__name__}, not a {option.kind.__name__}",
            f"{key}: {option.meaning}; by default {option.default}",
        )
    if option.only is not None and value != option.only:
        raise ArgumentError(request, f"only {option.only} is possible", option.meaning)
    if option.least is not None and value < option.least:
        raise ArgumentError(request, f"it is less than {option.least}", option.meaning)
    return option.kind(value)


def _lower_passes(request: str, value: Any) -> list[tuple[int, Any]]:
    out = []
    for entry in value if isinstance(value, (list, tuple)) else [value]:
        pair = tuple(entry) if isinstance(entry, (list, tuple)) else ()
        if len(pair) != 2 or isinstance(pair[0], bool) or not isinstance(pair[0], int):
            raise ArgumentError(
                request, f"{entry!r} is not a pair (phase, pass)", "[(1, my_pass)], phases 0 to 3"
            )
        phase, what = pair
        if phase < 0:
            raise ArgumentError(request, f"there is no phase {phase}", "phases are 0 to 3")
        if not isinstance(getattr(what, "info", None), PassInfo):
            raise ArgumentError(
                request,
                f"a {type(what).__name__} is no pass",
                "decorate it with tir.transform.prim_func_pass or transform.module_pass",
            )
        out.append((min(phase, 3), what))
    return out
