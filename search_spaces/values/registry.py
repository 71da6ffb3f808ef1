"""The templates of this process by name; built-in ones are imported when they are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.compiler.errors import SpaceError
from whet.compiler.homes import imported
from whet.search_spaces.knobs.source import still_in_file
from whet.search_spaces.values.builtin import BUILTIN

if TYPE_CHECKING:
    from whet.search_spaces.template import Template

_templates: dict[str, Template] = {}


def register(new: Template, *, replace: bool = False) -> None:
    """Enter a template in the table of this process.

    Args:
        new: the template.
        replace: whether it may take the place of another function's.

    Raises:
        SpaceError: the name is taken and ``replace`` is false.
    """
    builtin = BUILTIN.get(new.name, "").partition(":")[0]
    if builtin and new.func.__module__ != builtin:
        raise SpaceError(
            f"@template({new.name!r})", "the name is a built-in template's", "choose another name"
        )
    old = _templates.get(new.name)
    if old is not None and not replace and not _is_new_edition(old, new):
        raise SpaceError(
            f"@template({new.name!r}) of {_where(new)}",
            f"another function has registered this name: {_where(old)}",
            "choose another name",
        )
    _templates[new.name] = new


def list_templates() -> list[str]:
    """The names of the built-in templates and of those registered in this process, sorted."""
    return sorted({*BUILTIN, *_templates})


def registered(name: str) -> Template | None:
    """The template of this name, or None; built-in ones are imported when first asked for."""
    if name not in _templates and name in BUILTIN:
        _templates.setdefault(name, imported(BUILTIN[name]))
    return _templates.get(name)


def _is_new_edition(old: Template, new: Template) -> bool:
    """True if ``new`` is ``old`` once more: a module reloaded, a notebook cell run again."""
    if new.source_hash == old.source_hash:
        return True
    same_place = (new.func.__module__, new.func.__qualname__) == (
        old.func.__module__,
        old.func.__qualname__,
    )
    if not same_place:
        return False
    # One file that defines the name twice looks like a reload, but for the first text being there.
    file = _file(new)
    return file != _file(old) or not (old.source_text and still_in_file(old.source_text, file))


def _file(item: Template) -> str:
    return getattr(getattr(item.func, "__code__", None), "co_filename", "")


def _where(item: Template) -> str:
    line = getattr(getattr(item.func, "__code__", None), "co_firstlineno", "?")
    return f"{item.func.__module__}.{item.func.__qualname__} ({_file(item)}:{line})"
