"""Sphinx extension: one page of reference for each public module, made from its docstrings.

Which modules are public is read from :mod:`whet` itself, and what is public in a module from its
``__all__``. A name is documented as users write it: ``whet.te.compute``, not where its file is.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from docstrings import as_rst

import whet

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SKIPPED = {"compiler", "error"}
"""Modules of which the public parts have names of their own."""

INNER = {
    "whet.tir": ("analysis", "ir_builder", "stmt_functor", "transform"),
}
"""Public modules that are reached through another one, and are not in its ``__all__``."""


def public_modules() -> dict[str, ModuleType]:
    """Every public module by the name that users write, the front door first."""
    found: dict[str, ModuleType] = {"whet": whet}
    for name in sorted(whet.__all__):
        if inspect.ismodule(getattr(whet, name)) and name not in SKIPPED:
            found[f"whet.{name}"] = getattr(whet, name)
    for name in list(found):
        _collect_inner(name, found)
    return dict(sorted(found.items()))


def _collect_inner(name: str, found: dict[str, ModuleType]) -> None:
    for inner in (*getattr(found[name], "__all__", ()), *INNER.get(name, ())):
        value = getattr(found[name], inner)
        if not inspect.ismodule(value) or not value.__name__.startswith("whet."):
            continue
        if all(value is not m for m in (whet.compiler, *found.values())):
            found[f"{name}.{inner}"] = value
            _collect_inner(f"{name}.{inner}", found)


HOMES = (
    "te",
    "target",
    "runtime",
    "search_spaces",
    "measure",
    "db",
    "autotune",
    "tir",
    "transform",
)
"""Where a thing with several public names is documented: in the first of these that has it."""


def documented(modules: dict[str, ModuleType]) -> dict[int, str]:
    """The name under which each class and function is documented, by identity."""
    first = [f"whet.{home}" for home in HOMES]
    order = sorted(modules, key=lambda m: (m == "whet", first.index(m) if m in first else 99, m))
    found: dict[int, str] = {}
    for module in order:
        for name in sorted(getattr(modules[module], "__all__", ())):
            value = getattr(modules[module], name)
            if kind_of(value) in ("Functions", "Classes", "Errors"):
                proper = getattr(value, "__name__", name) == name
                if proper or id(value) not in found:
                    found.setdefault(id(value), f"{module}.{name}")
    return found


def kind_of(value: Any) -> str:
    """The heading that a public value stands under; "" for a module."""
    if inspect.ismodule(value):
        return ""
    if inspect.isclass(value):
        return "Errors" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isroutine(value) else "Values"


def page(name: str, module: ModuleType, homes: dict[int, str]) -> str:
    """The reStructuredText of a module's page.

    Args:
        name: what users write.
        module: the module itself.
        homes: from :func:`documented`.
    """
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Values": []}
    elsewhere: list[str] = []
    for n in sorted(getattr(module, "__all__", ()), key=str.lower):
        value = getattr(module, n)
        if homes.get(id(value), f"{name}.{n}") != f"{name}.{n}":
            elsewhere.append(f"* ``{n}``: :py:obj:`{homes[id(value)]}`")
        elif kind_of(value):
            kinds[kind_of(value)].append(n)
    lines = [name, "=" * len(name), "", f".. py:module:: {name}", ""]
    lines += [*as_rst((inspect.getdoc(module) or "").splitlines()), ""]
    for kind, names in kinds.items():
        if not names:
            continue
        lines += [kind, "-" * len(kind), ""]
        if kind != "Values":
            lines += [".. autosummary::", "   :nosignatures:", ""]
            lines += [f"   {n}" for n in names] + [""]
        lines += [_entry(kind, f"{name}.{n}", getattr(module, n)) for n in names]
    if elsewhere:
        lines += ["Described elsewhere", "-" * 19, "", *elsewhere, ""]
    return "\n".join(lines)


def _entry(kind: str, full: str, value: Any) -> str:
    if kind == "Functions":
        return f".. autofunction:: {full}\n"
    if kind == "Values":  # their own docstring would be that of dict or tuple
        shown = repr(value)
        short = shown if len(shown) <= 60 and "<" not in shown else "..."
        return f".. py:data:: {full}\n   :value: {short}\n"
    members = "   :members:\n" if kind == "Classes" else ""
    return f".. autoclass:: {full}\n{members}   :show-inheritance:\n"


def know_annotations(homes: dict[int, str], modules: dict[str, ModuleType]) -> None:
    """Give modules what they import for type checkers alone.

    Autodoc reads annotations with the names of their module: one that it does not find there is
    looked for by its last part, and two public classes may share that.
    """
    public = [getattr(modules[m], n) for m in modules for n in getattr(modules[m], "__all__", ())]
    mine = [v for v in public if id(v) in homes and v.__module__.startswith("whet.")]
    for name in sorted({v.__module__ for v in mine}):
        module = sys.modules[name]
        for block in ast.parse(inspect.getsource(module)).body:
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
                for line in block.body:
                    _import_missing(module, line)
    for v in mine:
        if inspect.isclass(v) and issubclass(v, tuple) and hasattr(v, "_fields"):
            _name_fields(v)


def _name_fields(named: Any) -> None:
    """Put classes in the place of names: the maker of a named tuple has no module to look in."""
    hints = named.__new__.__annotations__
    for field, hint in hints.items():
        known = getattr(sys.modules[named.__module__], getattr(hint, "__forward_arg__", ""), hint)
        hints[field] = known


def _import_missing(module: ModuleType, line: ast.stmt) -> None:
    if not isinstance(line, ast.ImportFrom) or not (line.module or "").startswith("whet."):
        return
    source = importlib.import_module(str(line.module))
    for alias in line.names:
        known = alias.asname or alias.name
        if not hasattr(module, known):
            setattr(module, known, getattr(source, alias.name))


def write_pages(app: Sphinx) -> None:
    """Write the pages that have changed, and take away those of modules that are gone."""
    folder = Path(app.srcdir) / "generated" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    modules = public_modules()
    homes = documented(modules)
    know_annotations(homes, modules)
    pages = {name: page(name, module, homes) for name, module in modules.items()}
    listing = "".join(f"   {name}\n" for name in modules)
    pages["index"] = (
        "API reference\n=============\n\n"
        "Made from the docstrings. What is not listed here is not public.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listing}"
    )
    for old in folder.glob("*.rst"):
        if old.name.removesuffix(".rst") not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
