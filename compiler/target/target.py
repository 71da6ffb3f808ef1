"""Target: what code is made for, as text, JSON or a dict; an immutable value."""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any

from whet.compiler.errors import TargetError
from whet.compiler.target import features as feat
from whet.compiler.target import host
from whet.compiler.target.processors import X86_64

# kind -> option -> type. What a kind understands can be read here and nowhere else.
KINDS: dict[str, dict[str, type]] = {
    "llvm": {
        "mtriple": str,
        "mcpu": str,
        "mattr": str,
        "vector_bytes": int,
        "num_threads": int,
        "model": str,
        "keys": str,
        "device": str,
    },
}
_ALIASES = {"num_cores": "num_threads"}  # TVM's name

_current: ContextVar[tuple[Target, ...]] = ContextVar("whet_target", default=())


class Target:
    """What code is made for: a kind and its options.

    Args:
        spec: ``"llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma"``, a dict or its JSON text with the key
            ``kind``, or a Target. Options of ``llvm``: ``mtriple``, ``mcpu``, ``mattr``,
            ``vector_bytes`` (16, 32 or 64), ``num_threads`` (also ``num-cores``), ``model``,
            ``keys``, ``device``. A ``-`` in an option's name is the same as ``_``.

    Raises:
        TargetError: the kind or an option is unknown, given twice, or of the wrong type.

    ``with Target("llvm"):`` makes a target current. Two targets are equal when their kinds and
    options are; ``Target("llvm")`` is not equal to the canonical target of this machine.
    """

    __slots__ = ("_tokens", "attrs", "kind")

    kind: str
    attrs: Mapping[str, Any]
    _tokens: list[Token]

    def __init__(self, spec: str | Mapping[str, Any] | Target) -> None:
        if isinstance(spec, Target):
            kind, attrs = spec.kind, dict(spec.attrs)
        elif isinstance(spec, Mapping):
            kind, attrs = _from_mapping(spec)
        elif isinstance(spec, str):
            kind, attrs = _from_text(spec)
        else:
            raise TargetError(
                f"Target({spec!r})", "a target is a text, a dict or a Target", _kinds_text()
            )
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "attrs", dict(sorted(attrs.items())))
        object.__setattr__(self, "_tokens", [])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target does not change: make a new one to set {name}")

    def to_json(self) -> dict:
        """The target as JSON-able data; ``Target(data)`` makes it again."""
        return {"kind": self.kind, **self.attrs}

    def canonical(self) -> Target:
        """The target with everything that it leaves open filled in from this machine.

        For ``llvm``: ``mtriple``, ``mcpu``, ``mattr``, ``vector_bytes`` and ``num_threads``.
        """
        return _canonical(self)

    @property
    def key(self) -> str:
        """A short stable name of the canonical form."""
        text = self.canonical()._text()
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def vector_bytes(self) -> int:
        """Width of a vector register in bytes."""
        return int(self.canonical().attrs["vector_bytes"])

    @property
    def num_threads(self) -> int:
        """Threads of a parallel loop."""
        return int(self.canonical().attrs["num_threads"])

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
    def list_kinds() -> list[str]:
        """The kinds that can be asked for."""
        return sorted(KINDS)

    def __enter__(self) -> Target:
        self._tokens.append(_current.set((*_current.get(), self)))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    def _text(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def __reduce__(self) -> tuple:
        return Target, (self.to_json(),)

    def __str__(self) -> str:
        return " ".join(
            [self.kind, *(f"-{k}={shlex.quote(str(v))}" for k, v in self.attrs.items())]
        )

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


@functools.cache
def _canonical_for(target: Target, threads: int) -> Target:
    attrs = dict(target.attrs)
    native = not attrs.get("mcpu") or attrs["mcpu"] == "native"
    arch = str(attrs.get("mtriple") or host.triple()).split("-")[0]
    attrs.setdefault("mtriple", host.triple())
    if arch == host.architecture() == "x86_64":
        have = set(host.features()) if native else set()
        for on, name in feat.parse_mattr(attrs.get("mattr", "")):
            (have.add if on else have.discard)(name)
        if native:
            kept = feat.closed(have)
            attrs["mcpu"] = feat.level(kept)
            attrs["mattr"] = ",".join("+" + f for f in sorted(kept))
        attrs.setdefault("mattr", "")
        if "vector_bytes" not in attrs:
            attrs["vector_bytes"] = (
                feat.x86_vector_bytes(feat.closed(have)) if native else _probe_vector_bytes(attrs)
            )
    else:
        attrs["mcpu"] = "generic" if native else attrs["mcpu"]
        local = native and arch == host.architecture()
        attrs.setdefault(
            "mattr", ",".join("+" + f for f in sorted(host.features())) if local else ""
        )
        attrs.setdefault("vector_bytes", 16)
    attrs.setdefault("num_threads", threads)
    return Target({"kind": target.kind, **attrs})


_FILLED = ("mtriple", "mcpu", "mattr", "vector_bytes", "num_threads")


def _canonical(target: Target) -> Target:
    if target.attrs.get("mcpu") != "native" and all(name in target.attrs for name in _FILLED):
        return target  # asked for often while code is made
    return _canonical_for(target, host.num_threads())


def _probe_vector_bytes(attrs: Mapping[str, Any]) -> int:
    """The width LLVM gives a named processor, read off the registers of an addition."""
    from whet.compiler.codegen.llvm import jit

    text = (
        "define <16 x float> @f(<16 x float> %x) {\n"
        "  %y = fadd <16 x float> %x, %x\n  ret <16 x float> %y\n}"
    )
    full = Target({"kind": "llvm", **attrs, "vector_bytes": 16, "num_threads": 1})
    asm = jit.assembly(text, full)
    return 64 if "zmm" in asm else 32 if "ymm" in asm else 16


def _kinds_text() -> str:
    return f"kinds: {', '.join(sorted(KINDS))}"


def _nearest(name: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"did you mean {close[0]!r}? " if close else ""


def _checked(asked: str, kind: object, pairs: list[tuple[str, Any]]) -> tuple[str, dict]:
    if not isinstance(kind, str) or kind not in KINDS:
        raise TargetError(
            asked,
            f"there is no target kind {kind!r}",
            _nearest(str(kind), list(KINDS)) + _kinds_text(),
        )
    options = KINDS[kind]
    attrs: dict[str, Any] = {}
    for raw, value in pairs:
        name = raw.replace("-", "_")
        name = _ALIASES.get(name, name)
        if name not in options:
            raise TargetError(
                asked,
                f"target kind {kind!r} has no option {raw!r}",
                _nearest(name, list(options)) + f"options of {kind}: {', '.join(sorted(options))}",
            )
        if name in attrs:
            raise TargetError(asked, f"option {name!r} is given twice")
        attrs[name] = _typed(asked, name, value, options[name])
    if kind == "llvm":
        _check_processor(asked, attrs)
    return kind, attrs


def _check_processor(asked: str, attrs: dict[str, Any]) -> None:
    """Refuse a processor's name for which LLVM would end the process."""
    name = attrs.get("mcpu") or "native"
    arch = str(attrs.get("mtriple") or host.architecture()).split("-")[0]
    if name == "native" or arch != "x86_64" or name in X86_64:
        return
    raise TargetError(
        asked,
        f"there is no 64-bit x86 processor {name!r}",
        _nearest(name, sorted(X86_64)) + "mcpu=native is this machine; x86-64-v3 has AVX2 and FMA",
    )


def _typed(asked: str, name: str, value: Any, wanted: type[Any]) -> Any:
    if wanted is str and isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    if wanted is int and isinstance(value, str) and value.isdigit():
        value = int(value)
    if type(value) is not wanted:
        raise TargetError(
            asked, f"option {name!r} takes {wanted.__name__}, not {value!r}", f"e.g. -{name}=…"
        )
    if name == "vector_bytes" and value not in (16, 32, 64):
        raise TargetError(
            asked, f"vector_bytes={value}", "vector registers have 16, 32 or 64 bytes"
        )
    if name == "num_threads" and int(value) < 1:
        raise TargetError(asked, f"num_threads={value}", "at least one thread is needed")
    return value


def _from_mapping(spec: Mapping[str, Any]) -> tuple[str, dict]:
    asked = f"Target({dict(spec)!r})"
    if "kind" not in spec:
        raise TargetError(asked, 'the key "kind" is missing', _kinds_text())
    return _checked(asked, spec["kind"], [(k, v) for k, v in spec.items() if k != "kind"])


def _from_text(text: str) -> tuple[str, dict]:
    asked = f"Target({text!r})"
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError as error:
            raise TargetError(asked, f"this is not JSON: {error}") from None
        return _from_mapping(data)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(asked, f"the text cannot be split into words: {error}") from None
    if not words:
        raise TargetError(asked, "the text is empty", _kinds_text())
    pairs: list[tuple[str, Any]] = []
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise TargetError(asked, f"{word!r} is not an option", "options read -name=value")
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            if not rest:
                raise TargetError(asked, f"option {name!r} has no value", "write -name=value")
            value = rest.pop(0)
        pairs.append((name, value))
    return _checked(asked, words[0], pairs)
