"""TemplateRef: how a worker finds a template that this process knows."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.template import Template, register

_KEPT = 32
# Payloads this process has made or opened, so that a template keeps its spaces between candidates.
_opened: OrderedDict[str, Template] = OrderedDict()


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
    import cloudpickle

    try:
        with _by_value(func.__module__):
            payload = cloudpickle.dumps((func, template.canonical))
    except Exception as error:
        raise SpaceError(
            f"send template {template.name!r} to a worker",
            f"its function cannot be pickled: {error}",
            "put the template in a module of its own, or keep open files and locks out of it",
        ) from error
    _keep(_digest(payload), template)
    return TemplateRef(*facts, pickled=payload)


@contextmanager
def _by_value(name: str) -> Iterator[None]:
    """Send what the function uses of its own module along, where no worker can import that."""
    import cloudpickle

    module = sys.modules.get(name)
    alone = module is not None and name != "__main__" and getattr(module, "__spec__", None) is None
    if not alone or name in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def resolve(ref: TemplateRef) -> Template:
    """The template that ``ref`` names, registered in this process.

    Raises:
        SpaceError: the module cannot be imported here, or has another template, or another source.
    """
    return _unpickled(ref) if ref.pickled else _imported(ref)


def importable(template: Template) -> bool:
    """Whether another process can import ``template`` by its function's module and name."""
    func = template.func
    module = sys.modules.get(func.__module__)
    # A script's __main__ is never run again, not even by its importable name.
    if func.__module__ == "__main__" or module is None or getattr(module, "__spec__", None) is None:
        return False
    return _attribute(module, func.__qualname__) is template


def _attribute(module: Any, qualname: str) -> Any:
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _imported(ref: TemplateRef) -> Template:
    asked = f"template {ref.name!r} of module {ref.module!r}"
    try:
        module = importlib.import_module(ref.module)
    except ImportError as error:
        raise SpaceError(
            asked,
            f"the worker cannot import the module: {error}",
            "install it where the workers run, or define the template in the script itself",
        ) from error
    found = _attribute(module, ref.qualname)
    if not isinstance(found, Template) or found.name != ref.name:
        raise SpaceError(asked, f"{ref.module}.{ref.qualname} is not this template here")
    if (found.source_hash, found.version) != (ref.source_hash, ref.version):
        raise SpaceError(
            asked,
            f"its source here ({found.source_hash[:8]}, version {found.version}) is not "
            f"the driver's ({ref.source_hash[:8]}, version {ref.version})",
            f"the file here is {getattr(module, '__file__', '?')}; give the workers the driver's "
            "code, and start the run again after an edit",
        )
    register(found, replace=True)
    return found


def _unpickled(ref: TemplateRef) -> Template:
    digest = _digest(ref.pickled)
    found = _opened.get(digest)
    if found is None:
        import cloudpickle

        try:
            func, canonical = cloudpickle.loads(ref.pickled)
        except Exception as error:
            raise SpaceError(
                f"template {ref.name!r} sent by the driver",
                f"the worker cannot open it: {type(error).__name__}: {error}",
                "modules that it uses must be importable where the workers run",
            ) from error
        found = Template(ref.name, func, ref.version, canonical)
        # A worker has no file to read the text from; the driver's reading counts.
        found.source_hash = ref.source_hash
        register(found, replace=True)
    _keep(digest, found)
    return found


def _keep(digest: str, template: Template) -> None:
    _opened[digest] = template
    _opened.move_to_end(digest)
    while len(_opened) > _KEPT:
        _opened.popitem(last=False)


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
