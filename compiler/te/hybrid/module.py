"""HybridModule: a script that was printed or stored, with its source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.hybrid.read import is_symbolic, operation
from whet.compiler.te.hybrid.runtime import HYBRID_GLOBALS
from whet.compiler.te.hybrid.source import parsed


class HybridModule:
    """A script with its source: called with arrays it runs as Python, with tensors it makes some.

    Attributes:
        name: of the function.
    """

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.name = name
        self._source: str | None = None
        self._file = "<hybrid module>"
        self._function: Callable[..., Any] | None = None
        if src is not None:
            self._take(src)

    def get_source(self) -> str:
        """The text of the script.

        Raises:
            ArgumentError: before a script was loaded.
        """
        if self._source is None:
            raise ArgumentError("HybridModule()", "there is no script yet", "load(path) reads one")
        return self._source

    def save(self, path: str) -> None:
        """Write the script to a file; ``.py`` is added where it is missing."""
        file = path if str(path).endswith(".py") else f"{path}.py"
        Path(file).write_text(self.get_source(), encoding="utf-8")

    def load(self, path: str) -> None:
        """Read a script from a file, which is run as Python source is.

        Raises:
            ArgumentError: for a file that does not define one function.
        """
        self._file = str(path)
        self._take(Path(path).read_text(encoding="utf-8"))

    def _take(self, text: str) -> None:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise ArgumentError(
                f"HybridModule: {self._file}", f"it is no Python: {error}"
            ) from error
        functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        if len(functions) != 1:
            raise ArgumentError(
                f"HybridModule: {self._file}",
                f"it defines {len(functions)} functions, not one",
                "save(path) of te.hybrid.build's result writes such a file",
            )
        (function,) = functions
        if self.name is None or self.name != function.name:
            self.name = function.name
        function.decorator_list = []
        names: dict[str, Any] = dict(HYBRID_GLOBALS)
        alone = ast.Module([function], [])
        exec(compile(alone, self._file, "exec"), names)
        self._function, self._source = names[function.name], text

    def __call__(self, *args: Any) -> Any:
        text = self.get_source()
        assert self._function is not None and self.name is not None
        if not is_symbolic(*args):
            return self._function(*args)
        source = parsed(text, self.name, self._file)
        return operation(source, inspect.signature(self._function), {}, args, {})
