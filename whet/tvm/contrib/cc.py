"""The system's C compiler; ``create_shared`` may be ``fcompile`` of ``export_library``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from whet.compiler import settings
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.library.export import compile_files

__all__ = ["create_shared", "cross_compiler", "get_cc"]


def get_cc() -> str | None:
    """The path of the C compiler (``CC``, else ``cc``); None where there is none."""
    return shutil.which(settings.c_compiler().split()[0])


def create_shared(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> None:
    """Link a shared library.

    Args:
        output: the file to write.
        objects: a file or a list: objects, and C files.
        options: more options of the compiler.
        cc: its command; ``CC`` or ``cc`` by default.

    Raises:
        ArtifactError: there is no compiler, or it refuses.
    """
    files = [objects] if isinstance(objects, str) else [str(o) for o in objects]
    compile_files(str(output), files, options, cc)


def cross_compiler(
    compile_func: str | Callable[..., None],
    options: Sequence[str] | None = None,
    output_format: str = "so",
) -> Callable[..., None]:
    """A function for ``export_library(fcompile=...)`` that calls a compiler for another machine.

    Args:
        compile_func: the compiler's command, or a function like :func:`create_shared`.
        options: options that it always gets.
        output_format: kept for TVM's callers; the name of the file says it.

    Raises:
        ArgumentError: ``compile_func`` is neither.
    """
    if not isinstance(compile_func, str) and not callable(compile_func):
        raise ArgumentError(
            f"cross_compiler({compile_func!r})", "a command or a function is needed"
        )

    def fcompile(
        output: str, objects: str | Sequence[str], more: Sequence[str] | None = None
    ) -> None:
        given = [*(options or ()), *(more or ())]
        if callable(compile_func):
            compile_func(output, objects, options=given)
        else:
            create_shared(output, objects, given, compile_func)

    fcompile.output_format = output_format  # type: ignore[attr-defined]
    return fcompile
