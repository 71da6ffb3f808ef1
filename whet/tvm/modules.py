"""Import statements in TVM's form: `import whet.te` and `from whet.runtime.ndarray import array`.

The modules live in ``whet.compiler`` and ``whet.autotune``. A finder gives the same module objects
under their short names, so that no class is there twice; it loads nothing before it is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whet.moved import MOVED

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

ELSEWHERE = {
    "whet.autotvm.task.space": "whet.search_spaces",
    "whet.contrib.utils": "whet.tvm.contrib.folder",
    "whet.driver.build_module": "whet.compiler.driver",
    "whet.ir.module": "whet.compiler.tir.function",
    "whet.ir.instrument": "whet.compiler.instrument",
    "whet.ir.transform": "whet.tvm.transform",
    "whet.runtime.ndarray": "whet.compiler.runtime.arrays.nd",
    "whet.te.tag": "whet.compiler.te.lang.tag",
    "whet.te.tensor": "whet.compiler.te.lang.tensor",
    "whet.tir.stmt_functor": "whet.compiler.tir.visit.stmt_functor",
    "whet.tir.transform": "whet.tvm.tir_transform",
}
"""TVM's submodules that have another name here; their parents load them."""


class ShortNames:
    """Finder and loader of ``whet.te`` and its like.

    Args:
        modules: short name (``"te"``) -> the module's name (``"whet.compiler.te"``).
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        apart = {f"whet.{short}": real for short, real in modules.items()}
        self.names = {n: real for n, real in apart.items() if n != real} | ELSEWHERE | MOVED

    def real_name(self, name: str) -> str:
        """The name under which a module lives; ``""`` where that is ``name`` itself."""
        if name in self.names:
            return self.names[name]
        parent, _, child = name.rpartition(".")
        above = parent and self.real_name(parent)
        return above and f"{above}.{child}"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """How to import ``name``; None: as any other module.

        Raises:
            MissingModule: TVM has it, and Whet says what to use instead.
        """
        if not name.startswith("whet."):
            return None
        from importlib.machinery import ModuleSpec
        from importlib.util import find_spec

        if name == "whet.compiler.absent":  # the compiler begins to load
            from whet.compiler import late

            late.ways_out = _ways_out
        _refuse_missing(name)
        real = self.real_name(name)
        if not real or find_spec(real) is None:
            return None
        return ModuleSpec(name, self, origin=real)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """The module is there, or is imported by its own name."""

    def exec_module(self, module: ModuleType) -> None:
        """Enter the real module, and those below it, under the short name."""
        name = module.__name__
        real = self.real_name(name)
        found = import_module(real)
        parent, _, child = real.rpartition(".")
        bound = getattr(sys.modules[parent], child, found)
        if bound is not found:  # entering the module would hide what has its name
            above = name.rpartition(".")[0]
            raise ImportError(
                f"{name} is a {type(bound).__name__}: write from {above} import {child}"
            )
        sys.modules[name] = found
        for below in [n for n in sys.modules if n.startswith(f"{real}.")]:
            sys.modules.setdefault(name + below.removeprefix(real), sys.modules[below])
        for short, other in ELSEWHERE.items():
            if short.startswith(f"{name}."):
                sys.modules.setdefault(short, import_module(other))


def _refuse_missing(name: str) -> None:
    """Raise for a module of TVM's that is in the table of absent names."""
    if name in ("whet.tvm.absent", "whet.compiler.errors"):
        return  # read here
    parent, _, child = name.removeprefix("whet.").removeprefix("tvm.").rpartition(".")
    if (way_out := _ways_out(parent).get(child)) is not None:
        from whet.compiler.errors import MissingModule

        raise MissingModule(f"import {name}", "Whet has no such module", way_out)


def _ways_out(short: str) -> Mapping[str, str]:
    """TVM's names that a module or a class lacks."""
    from whet.tvm.absent import ABSENT

    return ABSENT.get(short, {})


def install(modules: Mapping[str, str]) -> None:
    """Let import statements know the short names; they come before the files of the folders."""
    if not any(type(finder).__name__ == ShortNames.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, ShortNames(modules))
