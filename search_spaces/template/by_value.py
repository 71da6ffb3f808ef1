"""Functions by value, for workers that cannot import them: their code keeps its file's name."""

from __future__ import annotations

import functools
import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any


@functools.cache
def pickler() -> Any:
    """cloudpickle's ``Pickler``, whose code objects keep the names of their files.

    From 3.1.3 on cloudpickle calls every file ``<dynamic-code>``: tracebacks of a worker would not
    say which line of a script or a notebook's cell failed.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        dispatch_table = ChainMap({CodeType: _reduced}, cloudpickle.Pickler.dispatch_table)

    return Pickler


def dumps(value: Any) -> bytes:
    """The bytes of ``value``; ``pickle.loads`` reads them.

    Raises:
        Exception: as pickle does for something that it cannot send.
    """
    out = io.BytesIO()
    pickler()(out, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return out.getvalue()


def _reduced(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    import cloudpickle

    make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _of_file, (code.co_filename, make, args)


def _of_file(name: str, make: Callable[..., CodeType], args: tuple[Any, ...]) -> CodeType:
    return make(*args).replace(co_filename=name)
