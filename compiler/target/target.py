"""Target: what code is made for, as text, JSON, a dict or a tag; an immutable value."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, NoReturn

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.target.canon import CanonForms
from whet.compiler.target.canonical import canonical
from whet.compiler.target.kinds import KINDS, TargetKind, nearest
from whet.compiler.target.parse import option_name, parse
from whet.compiler.target.short import short_form
from whet.compiler.target.tags import find_tag, list_tags

_current: ContextVar[tuple[Target, ...]] = ContextVar("whet_target", default=())

DEVICE_TYPES = {"cpu": 1, "cuda": 2}
"""Device -> its number in DLPack; any other one has that of an extension."""
_EXTENSION = 12


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
        return KINDS[self]


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


def _of_tag(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config of a dict that names a tag in the place of a kind; its own options come first.

    Raises:
        TargetError: there is no such tag.
    """
    if "tag" not in spec:
        return None
    config = find_tag(str(spec["tag"]))
    if config is None:
        raise TargetError(
            f"Target({dict(spec)!r})",
            f"there is no tag {spec['tag']!r}",
            nearest(str(spec["tag"]), list(list_tags())) + "whet.target.list_tags() has them all",
        )
    more = {k if k in ("tag", "host") else option_name(str(k)): v for k, v in spec.items()}
    return {**config, **more}


def _as_host(kind: str, given: str | Mapping[str, Any] | Target) -> Target:
    host = Target(given)
    if host.device != "cpu":
        raise TargetError(
            f"Target({kind!r}, host={str(host)!r})", "a host is a CPU", 'e.g. host="llvm"'
        )
    return host


class Features:
    """What a target's processor has: ``target.features.has_avx2``."""

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


class Target(CanonForms):
    """What code is made for: a kind and its options.

    Args:
        target: ``"llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma"``; a dict or its JSON text with the key
            ``kind``; a tag (``"nvidia/nvidia-a100"``, see :func:`list_tags`); or a Target. What a
            kind understands stands in ``whet.target.KINDS``. A ``-`` in an option's name is the
            same as ``_``; a bare ``-name`` sets a bool.
        host: what runs the part that launches a GPU's kernels; also the key ``host``.

    Raises:
        TargetError: the kind or an option is unknown, given twice, or of the wrong type.

    ``with Target("llvm"):`` makes a target current. Two targets are equal when their kinds,
    options and hosts are; ``Target("llvm")`` is not equal to the canonical target of this machine.

    Attributes:
        kind: its name, a text; ``kind.name`` is the same.
        attrs: the options that were given.
        host: a Target or None.
        tag: the tag that it was made of, or ``""``.
    """

    __slots__ = ("_tokens", "attrs", "host", "kind", "tag")

    kind: KindName
    attrs: Attributes
    host: Target | None
    tag: str
    _tokens: list[Token]

    def __init__(
        self,
        target: str | Mapping[str, Any] | Target,
        host: str | Mapping[str, Any] | Target | None = None,
    ) -> None:
        tag = ""
        if isinstance(target, Target):
            kind, attrs, own, tag = str(target.kind), dict(target.attrs), target.host, target.tag
        else:
            config = find_tag(target) if isinstance(target, str) else None
            if config is not None:
                tag = str(target)
            elif isinstance(target, Mapping):
                tag = str(target.get("tag", ""))
                config = None if "kind" in target else _of_tag(target)
            kind, attrs, own = parse(target if config is None else config)
        given = own if host is None else host
        self._set("kind", KindName(kind))
        self._set("attrs", Attributes(sorted(attrs.items())))
        self._set("host", None if given is None else _as_host(kind, given))
        self._set("tag", tag)
        self._set("_tokens", [])

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target does not change: make a new one to set {name}")

    # other forms

    def to_json(self) -> dict:
        """The target as JSON-able data; ``Target(data)`` makes it again."""
        data: dict[str, Any] = {"kind": str(self.kind), **self.attrs}
        if self.host is not None:
            data["host"] = self.host.to_json()
        return data

    def export(self) -> dict:
        """The target as TVM writes it, with its tag and its keys; ``Target(data)`` is equal."""
        keys = self._list("keys") or list(self.keys)
        data = {**self.to_json(), "tag": self.tag, "keys": keys}
        if self.host is not None:
            data["host"] = self.host.export()
        return data

    def canonical(self) -> Target:
        """The target with everything that it leaves open filled in, for a CPU from this machine.

        For ``llvm``: ``mtriple``, ``mcpu``, ``mattr``, ``vector_bytes`` and ``num_threads``.
        """
        return canonical(self)

    def replaced(self, attrs: Mapping[str, Any]) -> Target:
        """A target of the same kind, host and tag with other options."""
        data: dict[str, Any] = {"kind": str(self.kind), **attrs, "tag": self.tag}
        return Target(data, self.host)

    def with_host(self, host: str | Mapping[str, Any] | Target | None) -> Target:
        """The same target with another host; with none for None."""
        return Target({"kind": str(self.kind), **self.attrs, "tag": self.tag}, host)

    @property
    def key(self) -> str:
        """A short stable name of the canonical form."""
        text = self.canonical()._text()
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    # properties

    @property
    def device(self) -> str:
        """The device its code runs on: ``"cpu"`` or ``"cuda"``."""
        return self.kind.row.device

    @property
    def vector_bytes(self) -> int:
        """Width of a vector register in bytes; 16 where there is no telling."""
        return int(self.canonical().attrs.get("vector_bytes", 16))

    @property
    def num_threads(self) -> int:
        """Threads of a parallel loop."""
        return int(self.canonical().attrs.get("num_threads", 1))

    @property
    def keys(self) -> tuple[str, ...]:
        """What generic functions are chosen by, the most special first."""
        own = self._list("keys")
        return tuple(dict.fromkeys([*own, *self._list("device"), *self.kind.row.keys]))

    @property
    def arch(self) -> str:
        """A GPU's architecture, e.g. ``"sm_80"``; ``""`` where none is given."""
        return str(self._get("arch", ""))

    @property
    def mcpu(self) -> str:
        """The processor that was asked for, or ``""``."""
        return str(self._get("mcpu", ""))

    @property
    def mattr(self) -> list[str]:
        """The features that were asked for, e.g. ``["+avx2"]``."""
        return self._list("mattr")

    @property
    def model(self) -> str:
        """The model of the device, ``"unknown"`` unless given."""
        return str(self._get("model", "unknown"))

    @property
    def device_name(self) -> str:
        """The option ``device``, or ``""``."""
        return str(self._get("device", ""))

    @property
    def libs(self) -> list[str]:
        """The libraries that may be used."""
        return self._list("libs")

    @property
    def max_num_threads(self) -> int:
        """The most threads of a block; of a CPU, the threads of a parallel loop."""
        if self.device == "cpu":
            return self.num_threads
        return int(self._get("max_threads_per_block", self._get("max_num_threads", 1024)))

    @property
    def thread_warp_size(self) -> int:
        """Threads that run in step: 1 on a CPU."""
        return int(self._get("thread_warp_size", 1))

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block may have."""
        return int(self.canonical().attrs.get("max_shared_memory_per_block", 0))

    @property
    def max_function_args(self) -> int:
        """The most arguments of a kernel, -1 for no limit."""
        return int(self._get("max_function_args", -1))

    @property
    def vtcm_capacity(self) -> int:
        """Bytes of a Hexagon's own memory: 0, no kind here has any."""
        return 0

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether four bytes are multiplied and summed at once."""
        given = self.attrs.get("supports_integer_dot_product")
        if given is not None:
            return bool(given)
        digits = "".join(c for c in self.arch if c.isdigit())
        if self.kind == "cuda":
            return bool(digits) and int(digits) >= 61
        return any(name in self.features for name in ("avx512vnni", "avxvnni", "dotprod"))

    @property
    def features(self) -> Features:
        """What the target's processor has, e.g. ``features.has_avx2``; a GPU has none of these.

        Raises:
            TargetError: LLVM does not know the processor.
        """
        from whet.compiler.target.machine.processor_features import features_of

        attrs = self.canonical().attrs
        if "mtriple" not in attrs:
            return Features(frozenset())
        named = (str(attrs.get(name, "")) for name in ("mtriple", "mcpu", "mattr"))
        return Features(features_of(*named))

    def get_kind_attr(self, attr_name: str) -> Any:
        """A field of the kind's row, e.g. ``"device"`` or ``"default_host"``; None if unknown."""
        return getattr(self.kind.row, attr_name, None)

    def get_target_device_type(self) -> int:
        """DLPack's number of the device: 1 for a CPU, 2 for CUDA."""
        return DEVICE_TYPES.get(self.device, _EXTENSION)

    def _get(self, name: str, default: Any) -> Any:
        return self.attrs.get(name, self.kind.row.defaults.get(name, default))

    def _list(self, name: str) -> list[str]:
        return [x.strip() for x in str(self.attrs.get(name, "")).split(",") if x.strip()]

    # the current target

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost ``with Target(...)``.

        Raises:
            TargetError: there is none and ``allow_none`` is false.
        """
        stack = _current.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TargetError(
            "Target.current()", "no target is in force", 'use `with whet.Target("llvm"):`'
        )

    @staticmethod
    def target_or_current(target: Any) -> Target:
        """``target`` as a Target, or the current one for None.

        Raises:
            ArgumentError: there is neither.
        """
        if target is not None:
            return Target(target)
        found = Target.current()
        if found is None:
            raise ArgumentError("target_or_current(None)", "target is not set", "give a target")
        return found

    @staticmethod
    def list_kinds() -> list[str]:
        """The kinds that can be asked for."""
        return sorted(KINDS)

    def __enter__(self) -> Target:
        self._tokens.append(_current.set((*_current.get(), self)))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    # a value

    def _text(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def __reduce__(self) -> tuple:
        return Target, ({**self.to_json(), "tag": self.tag},)

    def __str__(self) -> str:
        words = [str(self.kind), *(f"-{k}={shlex.quote(str(v))}" for k, v in self.attrs.items())]
        if self.host is not None:
            words.append(f"-host={shlex.quote(str(self.host))}")
        return " ".join(words)

    @property
    def short(self) -> str:
        """Kind, processor, vector width and threads in a few words, for people."""
        return short_form(self)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"
