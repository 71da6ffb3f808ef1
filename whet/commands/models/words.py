"""Models in the words of a command line: what is refused, and the way out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from whet.compiler.errors import ArgumentError, LogError

DEFAULT_LOG = "whet.db"
_ENDING = ".onnx"
_ALIKE = 0.7  # of an ending that was meant: .onn, .onx
_SHAPES = r"shapes=\{'([^']*)': (\([^)]*\)|\[[^\]]*\]|[^}]*)\}"


def ends_as_model(word: str) -> bool:
    """True for the name of a model's file."""
    return word.lower().endswith(_ENDING)


def check_ending(word: str) -> None:
    """Refuse a folder, a file that is no source, and a mistyped ending, for a model or a task.

    Raises:
        click.UsageError: it is one.
    """
    path = Path(word)
    if path.is_dir() and not word.isidentifier():
        raise click.UsageError(f"{word}: it is a folder; a model is a file that ends in {_ENDING}")
    if path.is_file() and path.suffix not in ("", ".py"):
        raise click.UsageError(f"{word}: it is a file; a model's name ends in {_ENDING}")
    if get_close_matches(path.suffix.lower(), [_ENDING], cutoff=_ALIKE):
        raise click.UsageError(f"{word}: there is no such file; a model's name ends in {_ENDING}")


def default_log(log: str | None) -> str | None:
    """The log that was named, else ``whet.db`` where it is there."""
    return DEFAULT_LOG if log is None and Path(DEFAULT_LOG).is_file() else log


def read_of_one(file: str, shapes: Mapping[str, Any]) -> Any:
    """The ``ModelProto`` in a file, for a table of one set of sizes.

    Args:
        file: the model's.
        shapes: a name -> its size or sizes.

    Raises:
        click.UsageError: several sizes are named.
        ArgumentError: it cannot be read.
    """
    from whet.frontends.onnx.file import loaded

    read = loaded(file)
    inputs = {i.name for i in read.graph.input}
    for name, given in shapes.items():
        if name not in inputs and isinstance(given, tuple):
            said = ",".join(map(str, given))
            raise click.UsageError(
                f"whet show: --shape {name}={said} names {len(given)} sizes, "
                f"and a table is of one\n  --shape {name}={given[0]}"
            )
    return read


def ranges_of(shapes: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges among sizes by their symbols: a dimension's name, or an input's, as ``x[0]``."""
    from whet.compiler.graph.symbolic.sizes import Dynamic

    found = {}
    for name, given in shapes.items():
        several = isinstance(given, tuple)
        for k, size in enumerate(given if several else (given,)):
            if isinstance(size, Dynamic):
                found[f"{name}[{k}]" if several else name] = size
    return found


def has_range(shapes: Mapping[str, Any]) -> bool:
    """True where a size stays a symbol."""
    return bool(ranges_of(shapes))


def tune_words(file: str, shapes: Mapping[str, Any], target: str | None, log: str | None) -> str:
    """The command that tunes a model: ``whet tune model.onnx --shape batch=1 --log whet.db``."""
    import shlex

    from whet.autotune.models.untuned import shape_words

    words = ["whet", "tune", file, *shape_words(shapes)]
    words += ["--target", target] if target not in (None, "llvm") else []
    return shlex.join([*words, "--log", log or DEFAULT_LOG])


def tuned_kernels(model: Any) -> list[bool]:
    """A bool for each call of a model, or group of one with symbols: records chose its configs."""
    models = getattr(model, "buckets", {"": model}).values()
    if hasattr(model, "groups"):
        return [any(by.is_tuned for by in group.tuned_by) for group in model.groups]
    return [c.tuned_by is not None and c.tuned_by.is_tuned for m in models for c in m.calls]


@contextmanager
def in_shell_words(tune: str) -> Iterator[None]:
    """Errors of a model in the words of a command line, not of Python.

    Args:
        tune: the command that tunes it.

    Raises:
        ArgumentError, LogError: in other words.
    """
    try:
        yield
    except ArgumentError as error:
        raise ArgumentError(*map(_in_shell, _parts(error))) from error
    except LogError as error:
        request, why, state = _parts(error)
        if state.startswith("whet.tune(task"):
            raise LogError(request, why, f"{tune} writes one") from error
        raise


def _parts(error: Exception) -> list[str]:
    return [part() if callable(part) else part for part in error.args]


def _in_shell(text: str) -> str:
    """A text without Python's calls."""
    text = re.sub(r"whet\.dynamic\((\d+), (\d+)\)", r"\1..\2", text)
    text = re.sub(r"whet\.dynamic\((\d+), (\d+), (\d+)\)", r"\1..\2..\3", text)
    text = re.sub(rf"\w+\({_SHAPES}\)", _option, text)
    text = re.sub(_SHAPES, _option, text)
    return re.sub(r"(?:from_onnx|compile|model_tasks)\('([^']*)'\)", r"\1", text)


def _option(found: re.Match[str]) -> str:
    return f"--shape {found[1]}={found[2].strip('()[]').replace(' ', '').rstrip(',')}"
