"""The index of a package: its kernels, and for which processors there is code of each.

It is read as data, and checked: a file with a right checksum can still be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArtifactError
from whet.compiler.runtime.package.container import ALIGNMENT, DIGEST, WRITE_AGAIN

Json = Mapping[str, Any]

KINDS = ("cpu", "cuda")
MOST_LIBRARIES = 256
MOST_KERNELS = 4096
MOST_NEEDS = 64
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


@dataclass(frozen=True)
class Library:
    """Code for one processor: of several kernels for a CPU, of one for a GPU.

    Attributes:
        kind: ``"cpu"``: a shared library; ``"cuda"``: a GPU's code as JSON.
        arch: ``"x86_64"``, ``"aarch64"``; of a GPU ``"sm_90"``.
        level: a word for it: ``"x86-64-v3"``, or ``"own"`` for the targets of the tasks.
        needs: LLVM's names of the features that its processor must have.
        offset, size: its place in the file, in bytes.
    """

    kind: str
    arch: str
    level: str
    needs: tuple[str, ...]
    offset: int = 0
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data, without its place."""
        data = {"kind": self.kind, "arch": self.arch, "level": self.level}
        return {**data, "needs": list(self.needs)}


@dataclass(frozen=True)
class Variant:
    """A kernel's code in one of the libraries.

    Attributes:
        library: its number.
        config: the choices of the knobs, for people.
        tuned_by: which config that is and why, for people: what
            :class:`~whet.compiler.abi.tuned_by.TunedBy` has, of which nothing is relied on.
        signature: what it takes, for people; the library itself tells what is checked.
    """

    library: int
    config: Json
    tuned_by: Json
    signature: str

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        data = {"library": self.library, "signature": self.signature}
        return {**data, "config": dict(self.config), "tuned_by": dict(self.tuned_by)}


@dataclass(frozen=True)
class Kernel:
    """A kernel of a package.

    Attributes:
        name: it is called by.
        workload: of which task it is, for people.
        variants: its code, the widest first: the first that runs on a machine is taken there.
    """

    name: str
    workload: str
    variants: tuple[Variant, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        variants = [v.to_json() for v in self.variants]
        return {"name": self.name, "workload": self.workload, "variants": variants}


@dataclass(frozen=True)
class Index:
    """All that a package tells of itself.

    Attributes:
        whet: the version of Whet that wrote it.
        libraries: code, by number.
        kernels: in order.
        models: whole models, of which :func:`own_models` are those that this version loads.
    """

    whet: str
    libraries: tuple[Library, ...]
    kernels: tuple[Kernel, ...]
    models: tuple[Json, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {
            "whet": self.whet,
            "libraries": [one.to_json() for one in self.libraries],
            "kernels": [one.to_json() for one in self.kernels],
            "models": list(self.models),
        }


class _Wrong(Exception):
    """Something in an index is not as it was written."""


def index_of(request: str, data: Json, size: int) -> Index:
    """The index that a file holds, checked.

    Args:
        request: the request, for the error.
        data: as it was read.
        size: bytes of the file.

    Raises:
        ArtifactError: a type or a number in it is wrong, a library lies outside the file or on
            another one, a name occurs twice.
    """
    try:
        models = _list(data, "models", MOST_KERNELS)
        libraries = tuple(map(_library, _list(data, "libraries", MOST_LIBRARIES)))
        places = [_constants(m, len(libraries)) for m in models if _is_own(m)]
        _check_places([*libraries, *places], size)
        kernels = tuple(_kernel(k, len(libraries)) for k in _list(data, "kernels", MOST_KERNELS))
        _check_once("kernel", (k.name for k in kernels))
        return Index(_text(data, "whet"), libraries, kernels, tuple(models))
    except _Wrong as error:
        raise ArtifactError(request, f"its index is damaged: {error}", WRITE_AGAIN) from None


def _library(data: Any) -> Library:
    kind, arch, level = (_text(data, key, _WORD) for key in ("kind", "arch", "level"))
    if kind not in KINDS:
        raise _Wrong(f"there is no code of kind {kind!r}")
    needs = _list(data, "needs", MOST_NEEDS)
    if not all(isinstance(name, str) and _WORD.fullmatch(name) for name in needs):
        raise _Wrong("the features that a library needs are no words")
    return Library(kind, arch, level, tuple(needs), _number(data, "offset"), _number(data, "size"))


def _kernel(data: Any, libraries: int) -> Kernel:
    variants = tuple(_variant(v, libraries) for v in _list(data, "variants", libraries))
    name = _text(data, "name", NAME)
    if len({v.library for v in variants}) != len(variants):
        raise _Wrong(f"kernel {name} names a library twice")
    return Kernel(name, _text(data, "workload"), variants)


def _variant(data: Any, libraries: int) -> Variant:
    library = _number(data, "library")
    if library >= libraries:
        raise _Wrong(f"a kernel names library {library} of {libraries}")
    config, tuned_by = (_get(data, key) for key in ("config", "tuned_by"))
    if not isinstance(config, dict) or not _is_flat(config, 4):
        raise _Wrong("a config is no object of knobs and their choices")
    if not isinstance(tuned_by, dict) or not _is_flat(tuned_by, 2):
        raise _Wrong("the reason for a config is no object of texts and numbers")
    return Variant(library, config, tuned_by, _text(data, "signature"))


def _is_flat(value: Any, depth: int) -> bool:
    """True where nothing is nested deeper than that: it is shown to people."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_flat(one, depth - 1) for one in inner)


@dataclass(frozen=True)
class _Constants:
    """The place of a model's constants."""

    offset: int
    size: int


def _is_own(model: Any) -> bool:
    """True for a model that this version knows; those of later ones are passed over."""
    return isinstance(model, dict) and "library" in model


def _constants(model: Json, libraries: int) -> _Constants:
    _text(model, "name", NAME)
    number, offset, size = model_of(model)
    if number >= libraries:
        raise _Wrong(f"a model names library {number} of {libraries}")
    return _Constants(offset, size)


def model_of(model: Json) -> tuple[int, int, int]:
    """The number of a model's library, and the place of its constants: offset and size."""
    place = _get(model, "constants")
    return _number(model, "library"), _number(place, "offset"), _number(place, "size")


def own_models(index: Index) -> list[Json]:
    """The models of a package that this version can load."""
    return [m for m in index.models if _is_own(m)]


def _check_places(blobs: Iterable[Library | _Constants], size: int) -> None:
    """Refuse libraries and constants that are not in the file, each for itself."""
    end = 1  # in the first page is the head
    for one in sorted(blobs, key=lambda one: one.offset):
        what = "a library" if isinstance(one, Library) else "a model's constants"
        if one.offset % ALIGNMENT or one.offset < end or not one.size:
            raise _Wrong(f"{what} of {one.size:,} bytes at byte {one.offset:,} lies on another")
        end = one.offset + one.size
        if end > size - DIGEST:
            raise _Wrong(f"{what} ends at byte {end:,} of {size:,}")


def _check_once(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _Wrong(f"two of its {kind}s are called {name}")
        seen.add(name)


def _get(data: Any, key: str) -> Any:
    if not isinstance(data, dict):
        raise _Wrong(f"{key!r} is looked for in a {type(data).__name__}")
    if key not in data:
        raise _Wrong(f"{key!r} is missing")
    return data[key]


def _text(data: Any, key: str, form: re.Pattern[str] | None = None) -> str:
    text = _get(data, key)
    if not isinstance(text, str) or (form and not form.fullmatch(text)):
        raise _Wrong(f"{key!r} is {_shown(text)}")
    return text


def _number(data: Any, key: str) -> int:
    number = _get(data, key)
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise _Wrong(f"{key!r} is {_shown(number)}, no number of bytes or of a library")
    return number


def _shown(value: Any) -> str:
    """A value for an error; of what could be large or deep the type alone."""
    plain = isinstance(value, str | int | float | None)
    return repr(value)[:80] if plain else f"a {type(value).__name__}"


def _list(data: Any, key: str, most: int) -> list[Any]:
    found = _get(data, key)
    if not isinstance(found, list):
        raise _Wrong(f"{key!r} is no list but a {type(found).__name__}")
    if len(found) > most:
        raise _Wrong(f"{key!r} has {len(found):,} entries, {most} at most")
    return found
