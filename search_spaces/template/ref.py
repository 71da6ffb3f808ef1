"""TemplateRef: how a worker finds a template that this process knows."""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.plain import said

if TYPE_CHECKING:
    from whet.search_spaces.template.definition import Template

_KEPT = 32
# Payloads that this process has made or read, so that a template keeps its spaces between
# candidates.
_by_digest: OrderedDict[str, Template] = OrderedDict()


@dataclass(frozen=True)
class TemplateRef:
    """Where a template is found: in an importable module, or in the function itself.

    Attributes:
        name: the template's name.
        version: its version.
        source_hash: hex digits of its function's source, as the process that made the ref read it.
        module: the module to import; empty where ``pickled`` carries the function.
        qualname: where in the module.
        pickled: the function as cloudpickle bytes, for templates of a script's ``__main__``, a
            notebook or a function's inside. They travel from a run to its own workers only; no
            log or artifact holds them, and nothing read from one is ever opened so.
    """

    name: str
    version: int
    source_hash: str
    module: str = ""
    qualname: str = ""
    pickled: bytes = field(default=b"", repr=False)


def ref_of(template: Template) -> TemplateRef:
    """How another process finds ``template``.

    Raises:
        SpaceError: the function is not in an importable module and holds something that cannot be
            sent (an open file, a lock).
    """
    func = template.func
    facts = (template.name, template.version, template.source_hash)
    if importable(template):
        return TemplateRef(*facts, func.__module__, func.__qualname__)
    from whet.search_spaces.template import by_value

    try:
        with _by_value(func):
            payload = by_value.dumps((func, template.canonical))
    except Exception as error:
        raise SpaceError(
            f"send template {template.name!r} to a worker",
            f"its function cannot be pickled: {error}",
            "put the template in a module of its own, or keep open files and locks out of it",
        ) from error
    keep(payload, template)
    return TemplateRef(*facts, pickled=payload)


@contextmanager
def _by_value(func: Any) -> Iterator[None]:
    """Send what the function uses of its own modules along, where no worker can import them."""
    import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    names = {func.__module__, *getattr(func, "modules", ())} - {"__main__", *known}
    modules = [sys.modules[name] for name in names if name in sys.modules]
    alone = [module for module in modules if getattr(module, "__spec__", None) is None]
    for module in alone:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in alone:
            cloudpickle.unregister_pickle_by_value(module)


def importable(template: Template) -> bool:
    """True if another process can import ``template`` by its function's module and name."""
    func = template.func
    module = sys.modules.get(func.__module__)
    # A script's __main__ is never run again, not even by its importable name.
    if func.__module__ == "__main__" or module is None or getattr(module, "__spec__", None) is None:
        return False
    return attribute_of(module, func.__qualname__) is template


def attribute_of(module: Any, qualname: str) -> Any:
    """The value of a dotted name of a module; None where there is none."""
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def unpickle(ref: TemplateRef) -> tuple[Any, Any]:
    """The function of a ref by value, and its ``canonical``; for a driver's bytes only.

    Raises:
        SpaceError: the bytes use something that is not importable here.
    """
    import cloudpickle

    try:
        func, canonical = cloudpickle.loads(ref.pickled)
    except Exception as error:
        raise SpaceError(
            f"template {ref.name!r} sent by the driver",
            f"the worker cannot open it: {said(error)}",
            "modules that it uses must be importable where the workers run",
        ) from error
    return func, canonical


def keep(payload: bytes, template: Template) -> None:
    """Remember the template of a payload: the last 32 are."""
    digest = _digest(payload)
    _by_digest[digest] = template
    _by_digest.move_to_end(digest)
    while len(_by_digest) > _KEPT:
        _by_digest.popitem(last=False)


def kept(payload: bytes) -> Template | None:
    """The template of a payload that this process has made or read."""
    return _by_digest.get(_digest(payload))


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
