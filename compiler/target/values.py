"""The parts of a Target: the name of its kind, its options, its processor's features."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from whet.compiler.target.kinds import TargetKind, row_of
from whet.compiler.target.parse import option_name

T = TypeVar("T", str, int)


class KindName(str):
    """The name of a kind, which serves as TVM's kind object, too."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name as a plain text."""
        return str.__str__(self)

    @property
    def row(self) -> TargetKind:
        """The kind's row in the table of kinds."""
        return row_of(self)


def _refuse(attrs: Any, *_: object, **__: object) -> NoReturn:
    raise TypeError("a Target does not change: make a new one to set an option")


class Attributes(dict[str, Any]):
    """Options by name, read only; ``attrs["num-cores"]`` finds ``num_threads``."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple:
        return type(self), (dict(self),)

    def __missing__(self, name: str) -> Any:
        known = option_name(name)
        if known == name:
            raise KeyError(name)
        return self[known]

    def get(self, name: str, default: Any = None) -> Any:
        """The option, or ``default`` where it is not given."""
        return super().get(name if name in self else option_name(name), default)


class Features:
    """The features of a target's processor: ``target.features.has_avx2``."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def __getattr__(self, name: str) -> bool:
        if not name.startswith("has_"):
            raise AttributeError(f"{name!r}: features are asked for as has_<feature>")
        wanted = name[4:].replace("_", "").replace(".", "")
        return any(n.replace("-", "").replace(".", "").replace("_", "") == wanted for n in self)

    def __iter__(self) -> Any:
        return iter(sorted(self._names))

    def __contains__(self, name: object) -> bool:
        return name in self._names


class Option(Generic[T]):
    """A property of a Target that is one of its options, its kind's default or ``default``."""

    def __init__(self, name: str, default: T, doc: str) -> None:
        self.name = name
        self.default: T = default
        self.__doc__ = doc

    def __get__(self, target: Any, owner: type | None = None) -> T:
        if target is None:
            return self  # type: ignore[return-value]
        known = target.kind.row.defaults.get(self.name, self.default)
        return type(self.default)(target.attrs.get(self.name, known))
