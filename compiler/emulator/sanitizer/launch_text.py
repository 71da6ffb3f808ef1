"""A launch as in CUDA C, with arrays by their types: ``f<<<4, 256>>>(float32[1000], 2)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from whet.compiler.emulator.sanitizer.array_text import HOW_ARRAY, literal, read_array
from whet.compiler.emulator.sanitizer.run import Argument, Unwritten
from whet.compiler.errors import ArgumentError

_LAUNCH = re.compile(
    r"^\s*(?:\w+::)*(?P<kernel>\w+)\s*(?:<(?!<)(?P<template>.*?)>\s*)?"
    r"<<<(?P<sizes>.*)>>>\s*\((?P<arguments>.*)\)\s*;?\s*$",
    re.DOTALL,
)
_IN_COMMENT = re.compile(
    r"^\s*(?://|\*|/\*)\s*whet:\s*(.*?<<<.*?>>>.*?\))\s*;?\s*(?:\*/)?\s*$", re.MULTILINE
)
HOW = (
    "f<<<grid, block>>>(arguments) or f<<<grid, block, shared bytes>>>(arguments); a grid or block "
    f"is a number or (x, y, z), an argument a number or an array: {HOW_ARRAY}; "
    "f<32, float><<<...>>> launches a template"
)


@dataclass(frozen=True, slots=True)
class LaunchText:
    """A launch that was read.

    Attributes:
        kernel: its name.
        grid, block: extents along x, y, z as far as they were given.
        shared_bytes: dynamic shared memory of a block.
        arguments: the texts of the arguments.
        template: those of a template's arguments.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    arguments: tuple[str, ...]
    template: tuple[str, ...] = ()

    def values(self, seed: int = 0) -> list[Argument]:
        """The arguments: arrays filled with drawn values, numbers.

        Args:
            seed: of the values.

        Raises:
            ArgumentError: an argument is none.
        """
        rng = np.random.default_rng(seed)
        return [_value(text, rng) for text in self.arguments]


def launches_in(source: str) -> list[str]:
    """The launches that a text names in comments: ``// whet: f<<<4, 256>>>(float32[1000])``."""
    return _IN_COMMENT.findall(source)


def read_launch(text: str) -> LaunchText:
    """Read a launch.

    Raises:
        ArgumentError: it is none.
    """
    parts = _LAUNCH.match(text)
    sizes = listed(parts["sizes"]) if parts else []
    if not parts or not 2 <= len(sizes) <= 3:
        why = f"{len(sizes)} values stand between <<< and >>>" if parts else "it is not one"
        raise ArgumentError(f"the launch {text!r}", why, HOW)
    grid, block, shared = (_extents(text, size) for size in (*sizes, "0")[:3])
    arguments, template = tuple(listed(parts["arguments"])), tuple(listed(parts["template"] or ""))
    return LaunchText(parts["kernel"], grid, block, shared[0], arguments, template)


def _extents(launch: str, text: str) -> tuple[int, ...]:
    value = literal(re.sub(r"^dim3\s*\(", "(", text))
    value = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(n, int) for n in value):
        raise ArgumentError(f"the launch {launch!r}", f"{text!r} is no extent", HOW)
    return value


def _value(text: str, rng: np.random.Generator) -> Argument:
    value = read_array(text, rng)
    value = literal(text) if value is None else value
    if not isinstance(value, (np.ndarray, Unwritten, int, float)):
        raise ArgumentError(f"the argument {text!r}", "it is neither a number nor an array", HOW)
    return value


def listed(text: str) -> list[str]:
    """The parts of a list of arguments: between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]
