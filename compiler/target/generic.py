"""Functions that have one meaning and a version for each kind of target.

>>> @generic_func
... def tile(n):
...     return 8
>>> @tile.register("gpu")
... def tile_gpu(n):
...     return 32
>>> tile(5)
8
>>> with Target("cuda"):
...     tile(5)
32
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.target.target import Target

_named: dict[str, GenericFunc] = {}


class GenericFunc:
    """A function that is looked up by the keys of the current target.

    Args:
        default: what is called where no key of the target has a version.
        name: for messages, and for :func:`get_native_generic_func`.
    """

    def __init__(self, default: Callable[..., Any] | None, name: str) -> None:
        self.name = name
        self.default = default
        self.versions: dict[str, Callable[..., Any]] = {}
        if default is not None:
            functools.update_wrapper(self, default)

    def register(
        self, func: Any, key_list: str | Sequence[str] | None = None, allow_override: bool = False
    ) -> Any:
        """Make ``func`` the version for some keys; ``@f.register("gpu")`` does the same.

        Raises:
            ArgumentError: a key has a version already and ``allow_override`` is false.
        """
        if key_list is None or isinstance(func, (str, list, tuple)):
            keys = func
            return lambda f: self.register(f, keys, allow_override)
        for key in [key_list] if isinstance(key_list, str) else key_list:
            if key in self.versions and not allow_override:
                raise ArgumentError(
                    f"{self.name}.register({key!r})",
                    "the key has a version already",
                    "give allow_override=True to replace it",
                )
            self.versions[key] = func
        return func

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Make ``func`` what is called where no key has a version."""
        if self.default is not None and not allow_override:
            raise ArgumentError(
                f"{self.name}.set_default(...)", "there is one", "give allow_override=True"
            )
        self.default = func

    def get_packed_func(self) -> Callable[..., Any]:
        """The version for the current target."""
        target = Target.current()
        for key in target.keys if target is not None else ():
            if key in self.versions:
                return self.versions[key]
        if self.default is None:
            raise ArgumentError(
                f"{self.name}(...)",
                f"there is no version for {target}",
                f"versions: {', '.join(self.versions) or 'none'}",
            )
        return self.default

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.get_packed_func()(*args, **options)

    def __repr__(self) -> str:
        return f"GenericFunc({self.name})"


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Make a function one whose versions ``register`` adds by key."""
    return GenericFunc(fdefault, fdefault.__name__)


def get_native_generic_func(name: str) -> GenericFunc:
    """The generic function of that name, a new one without a default at first."""
    return _named.setdefault(name, GenericFunc(None, name))


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """A decorator that makes a function the default of the named generic function."""

    def decorate(default: Callable[..., Any]) -> GenericFunc:
        found = get_native_generic_func(func_name)
        found.set_default(default, allow_override=True)
        return found

    return decorate
