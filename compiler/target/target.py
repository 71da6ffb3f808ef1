"""Target: what code is made for, as text, JSON, a dict or a tag; an immutable value."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from whet.compiler.errors import ArgumentError, TargetError, nearest
from whet.compiler.target.canonical import canonical
from whet.compiler.target.kinds import DEVICE_TYPES, KINDS, OTHER_KINDS
from whet.compiler.target.parse import option_name, parse
from whet.compiler.target.short import short_form
from whet.compiler.target.tags import find_tag, tag_names
from whet.compiler.target.values import Attributes, Features, KindName, Option

_current: ContextVar[tuple[Target, ...]] = ContextVar("whet_target", default=())

_EXTENSION = 12


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
            nearest(spec["tag"], tag_names(), 0.5) + "whet.target.list_tags() has them all",
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


class Target:
    """The target of code: a kind and its options.

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

    __slots__ = ("attrs", "host", "kind", "tag")

    kind: KindName
    attrs: Attributes
    host: Target | None
    tag: str

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
        values: dict[str, Any] = {
            "kind": KindName(kind),
            "attrs": Attributes(sorted(attrs.items())),
            "host": None if given is None else _as_host(kind, given),
            "tag": tag,
        }
        for name, value in values.items():
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
        """The keys that choose a version of a generic function, the most special first."""
        own = self._list("keys")
        return tuple(dict.fromkeys([*own, *self._list("device"), *self.kind.row.keys]))

    arch = Option("arch", "", 'Architecture of a GPU, e.g. ``"sm_80"``; ``""``: not given.')
    mcpu = Option("mcpu", "", 'The processor that was asked for, or ``""``.')
    model = Option("model", "unknown", 'The model of the device, ``"unknown"`` unless given.')
    device_name = Option("device", "", 'The option ``device``, or ``""``.')
    thread_warp_size = Option("thread_warp_size", 1, "Threads that run in step: 1 on a CPU.")
    max_function_args = Option("max_function_args", -1, "The most arguments, -1 for no limit.")

    @property
    def mattr(self) -> list[str]:
        """The features that were asked for, e.g. ``["+avx2"]``."""
        return self._list("mattr")

    @property
    def libs(self) -> list[str]:
        """The libraries that may be used."""
        return self._list("libs")

    @property
    def max_num_threads(self) -> int:
        """The most threads of a block; of a CPU, the threads of a parallel loop."""
        if self.device == "cpu":
            return self.num_threads
        attrs, most = self.attrs, self.kind.row.defaults.get("max_num_threads", 1024)
        return int(attrs.get("max_threads_per_block", attrs.get("max_num_threads", most)))

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block may have."""
        return int(self.canonical().attrs.get("max_shared_memory_per_block", 0))

    @property
    def vtcm_capacity(self) -> int:
        """Bytes of a Hexagon's own memory; 0 where there is none."""
        return int(self.attrs.get("vtcm_capacity", 0))

    @property
    def supports_integer_dot_product(self) -> bool:
        """True where four bytes are multiplied and summed at once."""
        given = self.attrs.get("supports_integer_dot_product")
        if given is not None:
            return bool(given)
        digits = "".join(c for c in self.arch if c.isdigit())
        if self.kind == "cuda":
            return bool(digits) and int(digits) >= 61
        return any(name in self.features for name in ("avx512vnni", "avxvnni", "dotprod"))

    @property
    def features(self) -> Features:
        """The processor's features, e.g. ``features.has_avx2``; a GPU has none of these.

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

    def _list(self, name: str) -> list[str]:
        return [x.strip() for x in str(self.attrs.get(name, "")).split(",") if x.strip()]

    # targets in any of the forms that a call may give them

    @staticmethod
    def canon_target(target: Any) -> Target | None:
        """A target in any form as a Target; None stays None."""
        return None if target is None else Target(target)

    @staticmethod
    def canon_target_and_host(
        target: Any, host: Any = None, target_is_dict_key: bool = True
    ) -> tuple[Target | None, Target | None]:
        """A target that has its host, and that host.

        Args:
            target: a target in any form, or None.
            host: a host in any form; the target's own one by default.
            target_is_dict_key: TVM's; a Target can always be a key here.

        Raises:
            ArgumentError: a host without a target.
        """
        if target is None:
            if host is not None:
                raise ArgumentError(
                    f"canon_target_and_host(None, {host!r})", "a host needs a target", "give both"
                )
            return None, None
        full = Target(target, host)
        return full, full.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target] | None:
        """One target or several (a list; a dict, whose values are targets) as a list of Targets."""
        if multi_targets is None:
            return None
        if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
            return [Target(t) for t in multi_targets.values()]
        if isinstance(multi_targets, Sequence) and not isinstance(multi_targets, str):
            return [Target(t) for t in multi_targets]
        return [Target(multi_targets)]

    @staticmethod
    def canon_multi_target_and_host(target: Any, target_host: Any = None) -> list[Target]:
        """One target or several as a list of Targets that all have their host.

        Raises:
            ArgumentError: there is no target.
        """
        found = Target.canon_multi_target(target)
        if not found:
            raise ArgumentError(
                f"canon_multi_target_and_host({target!r})",
                "there is no target",
                "give one or several",
            )
        return [t if target_host is None else t.with_host(target_host) for t in found]

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: Any = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """A map from targets to anything as one from Targets that have a host, and that host."""
        out: dict[Target, Any] = {}
        host = Target.canon_target(target_host)
        for key, value in target_map.items():
            full = Target(key, host)
            host = full.host if host is None else host
            out[full] = value
        return out, host

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
        """The kinds that can be asked for; code is made for those in ``whet.target.KINDS``."""
        return sorted({*KINDS, *OTHER_KINDS})

    def __enter__(self) -> Target:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        # one target may be in force in several threads: what is in force is no part of it
        stack = _current.get()
        places = [k for k, one in enumerate(stack) if one is self]
        _current.set(stack[: places[-1]] if places else stack)

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
