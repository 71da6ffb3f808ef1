"""From a target's text, JSON or dict to its kind and its checked options."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Container, Mapping
from typing import Any

from whet.compiler.errors import TargetError, nearest
from whet.compiler.target.gpu_limits import architectures, is_architecture
from whet.compiler.target.kinds import TargetKind, find_kind, kinds_text
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import parse_mattr
from whet.compiler.target.machine.processors import ARCHITECTURES, X86_64, architecture_of
from whet.compiler.target.tags import no_such_tag

_ALIASES = {"num_cores": "num_threads"}  # TVM's name
# option -> its values, where not all of its type are legal, and the way out
_LEGAL: dict[str, tuple[Container[Any], str]] = {
    "vector_bytes": ((16, 32, 64), "vector registers have 16, 32 or 64 bytes"),
    "num_threads": (range(1, sys.maxsize), "at least one thread is needed"),
    "opt_level": (range(4), "LLVM's levels are 0, 1, 2 and 3"),
    "math": (
        ("2ulp", "4ulp", "fast"),
        "accuracy of mathematical functions: 2ulp (the default), 4ulp or fast",
    ),
    "mfloat_abi": (("soft", "hard"), "it is soft or hard"),
}
_TRUE, _FALSE = ("1", "true", "True"), ("0", "false", "False")

Parsed = tuple[str, dict[str, Any], Any]
"""The kind, its options, and what was given as host (or None)."""


def parse(spec: object) -> Parsed:
    """A text, a JSON text or a dict as kind, options and host.

    Raises:
        TargetError: see :class:`Target`.
    """
    if isinstance(spec, Mapping):
        return _from_mapping(spec)
    if isinstance(spec, str):
        return _from_text(spec)
    raise TargetError(f"Target({spec!r})", "a target is a text, a dict or a Target", kinds_text())


def option_name(raw: str) -> str:
    """An option's name here: ``num-cores`` is ``num_threads``."""
    name = raw.replace("-", "_")
    return _ALIASES.get(name, name)


def _from_mapping(spec: Mapping[str, Any]) -> Parsed:
    request = f"Target({dict(spec)!r})"
    if "kind" not in spec:
        raise TargetError(request, 'the key "kind" is missing', kinds_text())
    pairs = [(k, v) for k, v in spec.items() if k not in ("kind", "host", "tag")]
    kind = find_kind(request, spec["kind"])
    return kind.name, _checked(request, kind, _own_keys(kind, spec, pairs)), spec.get("host")


def _own_keys(
    kind: TargetKind, spec: Mapping[str, Any], pairs: list[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """The options without a list of keys that the target has anyhow: ``export()`` writes it."""
    keys = spec.get("keys")
    if not isinstance(keys, list | tuple):
        return pairs  # a text was asked for, and is part of the name under which logs are kept
    device = [x.strip() for x in str(spec.get("device", "")).split(",") if x.strip()]
    if list(keys) != list(dict.fromkeys([*device, *kind.keys])):
        return pairs
    return [p for p in pairs if p[0] != "keys"]


def _from_text(text: str) -> Parsed:
    request = f"Target({text!r})"
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError as error:
            raise TargetError(request, f"this is not JSON: {error}") from None
        return _from_mapping(data)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(request, f"the text cannot be split into words: {error}") from None
    if not words:
        raise TargetError(request, "the text is empty", kinds_text())
    if "/" in words[0]:
        raise no_such_tag(request, words[0])
    kind = find_kind(request, words[0])
    pairs = _pairs(request, kind, words[1:])
    hosts = [v for k, v in pairs if k == "host"]
    if len(hosts) > 1:
        raise TargetError(request, "option 'host' is given twice")
    attrs = _checked(request, kind, [p for p in pairs if p[0] != "host"])
    return kind.name, attrs, hosts[0] if hosts else None


def _pairs(request: str, kind: TargetKind, words: list[str]) -> list[tuple[str, Any]]:
    """``-name=value``, ``--name value`` and, for a bool, the bare ``-name``."""
    pairs: list[tuple[str, Any]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise TargetError(request, f"{word!r} is not an option", "options read -name=value")
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            flag = kind.option_type(option_name(name)) is bool
            if flag and (not rest or rest[0] not in (*_TRUE, *_FALSE)):
                pairs.append((name, True))
                continue
            if not rest:
                raise TargetError(request, f"option {name!r} has no value", "write -name=value")
            value = rest.pop(0)
        pairs.append((name, value))
    return pairs


def _checked(request: str, kind: TargetKind, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    for raw, value in pairs:
        name = option_name(str(raw))
        wanted = kind.option_type(name)
        if wanted is None:
            names = kind.option_names()
            raise TargetError(
                request,
                f"target kind {kind.name!r} has no option {raw!r}",
                nearest(name, names, 0.5) + f"options of {kind.name}: {', '.join(names)}",
            )
        if name in attrs:
            raise TargetError(request, f"option {name!r} is given twice")
        attrs[name] = _typed(request, name, value, wanted)
    # what is so anyhow has no part in the name under which logs are kept
    if attrs.get("math") == ("fast" if attrs.get("fast_math") else "2ulp"):
        del attrs["math"]
    if kind.device == "cpu":
        _check_processor(request, attrs)
    elif kind.name == "cuda":
        _check_architecture(request, attrs.get("arch"))
    return attrs


def _check_architecture(request: str, arch: str | None) -> None:
    """Refuse what is no architecture of NVIDIA's, or older than what code is made for."""
    if arch is None or is_architecture(arch):
        return
    from whet.compiler.target.machine.local_gpu import local_arch

    if arch == local_arch():  # what is newer than the table is taken from the GPU that is here
        return
    raise TargetError(
        request,
        f"there is no GPU of architecture {arch!r}",
        "it is sm_ and the compute capability without its dot: sm_80 is that of an A100 (8.0)\n"
        f"known: {', '.join(architectures())}; with the instructions of one alone: sm_90a, ...",
    )


def _check_processor(request: str, attrs: dict[str, Any]) -> None:
    """Refuse what LLVM would end the process for: a processor's name, an architecture."""
    arch = architecture_of(str(attrs.get("mtriple") or host.architecture()))
    if attrs.get("mtriple") and arch not in ARCHITECTURES:
        raise TargetError(
            request,
            f"no code is made for the architecture of {attrs['mtriple']!r}",
            nearest(arch, ARCHITECTURES, 0.5) + f"architectures: {', '.join(ARCHITECTURES)}",
        )
    name = attrs.get("mcpu") or "native"
    if arch == "x86_64":
        _check_sse2(request, str(attrs.get("mattr", "")))
    if name == "native" or arch != "x86_64" or name in X86_64:
        return
    raise TargetError(
        request,
        f"there is no 64-bit x86 processor {name!r}",
        nearest(name, sorted(X86_64), 0.5)
        + "mcpu=native is this machine; x86-64-v3 has AVX2 and FMA",
    )


def _check_sse2(request: str, mattr: str) -> None:
    """Refuse x86-64 without the registers that its calls pass floats in."""
    last = {name: on for on, name in parse_mattr(mattr)}
    off = [name for name in ("sse", "sse2") if not last.get(name, True)]
    if off:
        raise TargetError(
            request,
            f"without {' and '.join(off)} there is no code for floats on x86-64, and kernels have "
            "some: floats are passed in SSE registers",
            f"leave {', '.join('-' + name for name in off)} out of mattr",
        )


def _typed(request: str, name: str, value: Any, wanted: type[Any]) -> Any:
    if wanted is str and isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    if wanted is int and isinstance(value, str) and value.removeprefix("-").isdigit():
        value = int(value)
    if wanted is bool and str(value) in (*_TRUE, *_FALSE):
        value = str(value) in _TRUE
    if type(value) is not wanted:
        raise TargetError(
            request, f"option {name!r} takes {wanted.__name__}, not {value!r}", f"e.g. -{name}=…"
        )
    legal, way_out = _LEGAL.get(name, ((value,), ""))
    if value not in legal:
        raise TargetError(request, f"{name}={value}", way_out)
    return value
