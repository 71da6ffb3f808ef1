"""Entries of the corpus that `scripts/same_programs` digests, and the texts of one program.

An entry makes texts; a text has a key that people can read. Only names of ``whet`` that are public
are used here, and helpers of the examined tree's tests, which are found by their file names: the
same corpus examines trees whose modules lie elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

Texts = Iterator[tuple[str, str]]

LLVM = {
    level: f"llvm -mcpu=x86-64-{level} -num-threads={threads}"
    for level, threads in (("v2", 1), ("v3", 2), ("v4", 2))
}
ARM = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1 -num-threads=2"
C = "c -mcpu=x86-64-v3 -num-threads=2"
CUDA = {arch: f"cuda -arch={arch}" for arch in ("sm_80", "sm_90")}
SHORT = {**{text: f"x86-64-{level}/llvm" for level, text in LLVM.items()}, ARM: "aarch64/llvm"}
SHORT |= {C: "x86-64-v3/c", **{text: f"{arch}/cuda" for arch, text in CUDA.items()}}
"""Targets name processor and threads: digests are the same on every machine."""


@dataclass(frozen=True)
class Entry:
    """A part of the corpus.

    Attributes:
        key: what its texts' keys begin with.
        make: yields the rest of a key, and a text.
        quick: whether a quick run has it.
    """

    key: str
    make: Callable[[], Texts]
    quick: bool = False

    def texts(self) -> Texts:
        """Its keys and texts; where it raises, the error is a text, too."""
        try:
            for rest, text in self.make():
                yield f"{self.key}/{rest}", text
        except Exception as error:
            yield f"{self.key}/{told(error)[0]}", told(error)[1]


def told(error: Exception) -> tuple[str, str]:
    """The key's end and the text of an error; ``broken`` where it is none of Whet's own."""
    import whet

    kind = "refused" if isinstance(error, whet.WhetError) else "broken"
    return kind, f"{type(error).__name__}: {error}"


def attempted(key: str, texts: Callable[[], Iterable[tuple[str, str]]]) -> Texts:
    """Texts under a key; an error ends these alone."""
    try:
        for rest, text in texts():
            yield f"{key}/{rest}" if rest else key, text
    except Exception as error:
        rest, text = told(error)
        yield f"{key}/{rest}", text


def digest(text: str) -> str:
    """Enough of SHA-256 to tell texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def named(target: str) -> str:
    """The name of a target in keys."""
    return SHORT.get(target) or re.sub(r"\s+-?", " ", target)


def data(value: Any) -> str:
    """JSON text of plain data."""
    return json.dumps(value, sort_keys=True, indent=1, default=str)


# programs


def module_text(module: Any, target: str) -> str:
    """The generated text of a module: LLVM's IR, C, or CUDA C with the host's plans."""
    return module.get_source("cuda" if target.startswith("cuda") else "")


_KERNEL = re.compile(r"^[^\n{;/]*__raw\([^;{]*\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)


def kernels_apart(text: str) -> tuple[str, str]:
    """The raw kernels of a CPU's text, and its entries and declarations: these may change alone."""
    return "\n".join(_KERNEL.findall(text)), _KERNEL.sub("", text)


def program(schedule: Any, args: list[Any], target: str, key: str = "", **options: Any) -> Texts:
    """The loop IR and the generated text of a schedule for a target."""
    import whet

    where = f"{key}{named(target)}"

    def lowered() -> Texts:
        with whet.Target(target):
            yield "", str(whet.lower(schedule, args, **options))

    def built() -> Texts:
        module = whet.build(schedule, args, target, **options)
        text = module_text(module, target)
        kernels, rest = kernels_apart(text)
        yield "kernels" if kernels else "", kernels or text
        if kernels:
            yield "entry", rest
        for name in module.functions:
            yield f"signature {name}", str(module[name])

    yield from attempted(f"{where}/tir", lowered)
    yield from attempted(f"{where}/text", built)


def rows(table: Any) -> str:
    """Rows of numbers, rounded so that the order of additions does not matter."""
    return "\n".join(" ".join(f"{float(x):.12g}" for x in row) for row in table)


# what lies elsewhere in other trees


def tree() -> Path:
    """The tree that is examined: the one whose ``whet`` is imported."""
    import whet

    assert whet.__file__
    return Path(whet.__file__).resolve().parent.parent


@cache
def helper(name: str) -> ModuleType:
    """A helper of the tree's tests by its file's name, wherever below ``tests`` it lies."""
    tests = tree() / "tests"
    folders = {str(p.parent) for p in tests.rglob("*.py") if p.parent != Path(__file__).parent}
    sys.path += sorted(folders - set(sys.path))
    if not any(Path(folder, f"{name}.py").is_file() for folder in folders):
        raise FileNotFoundError(f"no {name}.py below {tests}")
    return importlib.import_module(name)


@cache
def internal(name: str) -> Any:
    """A class or function of ``whet`` by its name, in whichever module it is defined."""
    import whet

    assert whet.__file__
    package = Path(whet.__file__).parent
    wanted = re.compile(rf"^(?:class|def) {name}\b", re.MULTILINE)
    for path in sorted(_sources(package)):
        if wanted.search(path.read_text()):
            parts = path.relative_to(package.parent).with_suffix("").parts
            return getattr(importlib.import_module(".".join(parts)), name)
    raise LookupError(f"whet has no {name}")


def _sources(folder: Path) -> Iterator[Path]:
    """Files of a package, also of those of its folders that are links."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path
