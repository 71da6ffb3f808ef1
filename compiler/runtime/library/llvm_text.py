"""LLVM text that says what functions it has: what ``save("x.ll")`` writes, and its reading.

The description stands in the text as named metadata, which bitcode keeps, too::

    !whet = !{!1000000}
    !1000000 = !{!"{\\22signatures\\22: ...}"}
"""

from __future__ import annotations

import json
import re
from typing import Any

from whet.compiler.abi.artifact import Artifact
from whet.compiler.jit.compile import bitcode

_NUMBER = 1_000_000  # of a node, beyond those that generators write
_NODE = re.compile(r"^!whet = !\{!(\d+)\}", re.M)
#: functions for packed arguments: ``i32 name(DLTensor **, i32)``
_PACKED = re.compile(
    r'^define (?!internal|private|linkonce)[\w ()]*?\bi32 @("[^"]+"|[\w.$-]+)'
    r"\(ptr[^,()]*(?:\([^()]*\)[^,()]*)*, i32[^,()]*\)",
    re.M,
)


def with_description(artifact: Artifact) -> str:
    """An artifact's LLVM text with what it tells of itself."""
    said = {
        "signatures": [s.to_json() for s in artifact.signatures],
        "target": artifact.target,
        "tuned_by": {name: by.to_json() for name, by in artifact.tuned_by.items()},
    }
    text = json.dumps(said).replace("\\", "\\5C").replace('"', "\\22")
    return f'{artifact.source}\n!whet = !{{!{_NUMBER}}}\n!{_NUMBER} = !{{!"{text}"}}\n'


def described_bitcode(artifact: Artifact) -> bytes:
    """The same as bitcode."""
    return bitcode(with_description(artifact))


def description(text: str) -> tuple[dict[str, Any] | None, str]:
    """The description in a text, None for one that has none; and the text without it.

    Raises:
        ValueError: it is damaged.
    """
    named = _NODE.search(text)
    if named is None:
        return None, text
    node = re.search(rf'^!{named[1]} = !\{{!"(.*)"\}}', text, re.M)
    if node is None:
        raise ValueError("its metadata is cut off")
    read = re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), node[1])
    data: dict[str, Any] = json.loads(read)
    return data, text.replace(node[0], "").replace(named[0], "").rstrip() + "\n"


def packed_functions(text: str) -> list[str]:
    """The names of the functions ``i32 name(DLTensor **, i32)`` that a text defines for others."""
    return [name.strip('"') for name in _PACKED.findall(text)]
