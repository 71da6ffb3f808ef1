"""The syntax tree of a CUDA C text, read by tree-sitter, and edits of the text at its nodes.

The text that is parsed differs from the one that is edited, but has as many bytes: macros of
generated code look like the declarations they stand for. Bodies of macros are trees of their own.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import TargetError

DECLARATIONS = (
    *("declaration", "field_declaration", "parameter_declaration"),
    "optional_parameter_declaration",
)
_TYPES = (
    *DECLARATIONS,
    *("function_definition", "template_declaration", "template_instantiation", "type_descriptor"),
    *("identifier", "pointer_expression", "call_expression", "field_expression"),
    *("conditional_expression", "preproc_include", "preproc_arg"),
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
# Generated macros; attributes that the grammar does not know; pointers to rows, `float (*t)[33]`,
# which would be a call of float: they are parsed as `float  *t [33]`.
_BLANK = re.compile(
    rb"\bWHET_(?:LOCAL|SHARED_BUFFER|EXTENT)\([^;]*;|\b__(?:align|maxnreg)__\s*\([^()]*\)"
)
_GENERATED = re.compile(rb"\bWHET_GLOBAL\(([^()]*)\)")
_TO_ROWS = re.compile(rb"(?<=[;{}])(\s*[A-Za-z][\w:]*\s*)\((\s*[*&]\s*\w+\s*)\)(?=\s*\[)")


@functools.cache
def _grammar() -> tuple[Any, Any, Any]:
    """The library, its CUDA C, and the query for the nodes that anything here reads."""
    try:
        import tree_sitter
        import tree_sitter_cuda
    except ImportError as error:
        raise TargetError(
            "reading CUDA C for the emulator",
            f"{error.name} is not installed",
            "pip install tree-sitter tree-sitter-cuda",
        ) from None
    language = tree_sitter.Language(tree_sitter_cuda.language())
    query = tree_sitter.Query(language, " ".join(f"({name}) @{name}" for name in _TYPES))
    return tree_sitter, language, query


def without_comments(source: str) -> str:
    """CUDA C without its comments, lines where they were; strings stay."""
    return _COMMENT.sub(
        lambda m: m[0] if m[0].startswith('"') else " " + "\n" * m[0].count("\n"), source
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a syntax tree; where there is none, one without type, text and children."""

    syntax: Syntax = field(compare=False, repr=False)
    raw: Any

    def __bool__(self) -> bool:
        return self.raw is not None

    def __getitem__(self, name: str) -> Node:
        """The child that the grammar gives a name, or none."""
        return Node(self.syntax, self.raw and self.raw.child_by_field_name(name))

    @property
    def type(self) -> str:
        """The name of the grammar's rule."""
        return self.raw.type if self else ""

    @property
    def begin(self) -> int:
        """The first byte."""
        return self.raw.start_byte if self else 0

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.raw.end_byte if self else 0

    @property
    def text(self) -> str:
        """The text, as it stands."""
        return self.syntax.data[self.begin : self.end].decode()

    @property
    def parent(self) -> Node:
        """The node that holds this one."""
        return Node(self.syntax, self.raw and self.raw.parent)

    @property
    def children(self) -> list[Node]:
        """The children but for words and signs of the language."""
        return [Node(self.syntax, child) for child in (self.raw.named_children if self else ())]

    def within(self, *types: str) -> Node:
        """The nearest of these types around it."""
        outer = self.parent
        while outer and outer.type not in types:
            outer = outer.parent
        return outer


@dataclass(frozen=True, slots=True)
class Declared:
    """One name of a declaration: ``float (*t)[33] = x`` declares t.

    Attributes:
        node: the declaration.
        words: the type, and all that stands beside it: ``static``, ``__shared__``.
        name: without the arguments of a template; "" of a parameter without one.
        kind: the type, ``const float``.
        shape: of the declarator, from outside: ``*``, ``[``, ``&``, ``[(*``; ``f`` of a function,
            ``)`` of a pointer by a macro of generated text.
        sizes: of an array, as expressions; "" where none is given.
        parameters: of a function.
        value: its initial value.
        begin, end: of the declarator in bytes, without the value.
    """

    node: Node
    words: frozenset[str]
    name: str
    kind: str
    shape: str
    sizes: tuple[str, ...]
    parameters: tuple[Node, ...]
    value: Node
    begin: int
    end: int

    @property
    def is_parameter(self) -> bool:
        """True of a parameter of a function."""
        return self.node.type.endswith("parameter_declaration")


class Syntax:
    """A text with its syntax trees.

    Args:
        text: CUDA C.
    """

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._edits: list[tuple[int, int, int, str]] = []
        self._nodes: dict[str, list[Any]] = defaultdict(list)
        library, language, query = _grammar()
        parser, self._query = library.Parser(language), library.QueryCursor(query)
        parsed = _BLANK.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), self.data)
        parsed = _TO_ROWS.sub(rb"\1 \2 ", _GENERATED.sub(rb"            \1*", parsed))
        self.root = self._collect(parser.parse(parsed))
        for body in self.all("preproc_arg"):
            parser.included_ranges = [body.raw.range]
            self._collect(parser.parse(parsed))

    def _collect(self, tree: Any) -> Node:
        for name, nodes in self._query.captures(tree.root_node).items():
            self._nodes[name] += nodes
        return Node(self, tree.root_node)

    def all(self, *types: str) -> list[Node]:
        """All nodes of these types, in the order of the text."""
        nodes = [Node(self, raw) for name in types for raw in self._nodes[name]]
        return sorted(nodes, key=lambda node: (node.begin, -node.end))

    def declared(self, *types: str) -> list[Declared]:
        """All names that are declared by nodes of these types, in the order of the text."""
        return [d for node in self.all(*types) for d in declared_by(node)]

    def replace(self, begin: int, end: int, text: str) -> None:
        """Let a text stand for a range of bytes; what is edited in it otherwise is dropped."""
        lines = re.findall(rb"\\?\n", self.data[begin:end])[text.count("\n") :]
        self._edits.append((begin, 2, end, text + b"".join(lines).decode()))

    def wrap(self, node: Node, before: str, after: str) -> None:
        """Put texts around a node: those of an outer node outside."""
        self._edits.append((node.begin, 1, -node.end, before))
        self._edits.append((node.end, 0, -node.begin, after))

    def edited(self) -> str:
        """The text with all edits."""
        parts, at = [], 0
        for begin, rank, end, text in sorted(self._edits, key=lambda edit: edit[:3]):
            if begin >= at:
                parts += [self.data[at:begin], text.encode()]
                at = end if rank == 2 else begin
        return b"".join([*parts, self.data[at:]]).decode()


def declared_by(node: Node) -> list[Declared]:
    """The names of a declaration; of a type in a cast, one without a name."""
    kind = " ".join(" ".join(part.text.split()) for part in parts_of_type(node))
    outers = [Node(node.syntax, raw) for raw in node.raw.children_by_field_name("declarator")]
    words = frozenset(
        " ".join(Node(node.syntax, raw).text.split())
        for raw in node.raw.children
        if outers and raw.start_byte < outers[0].begin
    )
    return [_declared(node, words, kind, outer) for outer in outers]


def parts_of_type(declaration: Node) -> list[Node]:
    """The type of a declaration, and its ``const`` and ``volatile``."""
    kind = declaration["type"]
    return [
        child
        for child in declaration.children
        if child == kind or (child.type, child.text) in _QUALIFIERS
    ]


_QUALIFIERS = {("type_qualifier", "const"), ("type_qualifier", "volatile")}
_MARKS = {"array_declarator": "[", "function_declarator": "f"}


def _declared(declaration: Node, words: frozenset[str], kind: str, outer: Node) -> Declared:
    node = outer["declarator"] if outer.type == "init_declarator" else outer
    end, shape = node.end, ""
    sizes: list[str] = []
    parameters: list[Node] = []
    while node.type.endswith("declarator"):
        shape += _MARKS.get(node.type) or chr(node.syntax.data[node.begin])
        if node.type == "array_declarator":
            sizes.insert(0, node["size"].text)
        parameters = parameters or node["parameters"].children
        node = node["declarator"] or Node(
            node.syntax, next(iter(node.raw.named_children[::-1]), None)
        )
    if shape[:2] in ("*[", "&[") and b"(" in node.syntax.data[outer.begin - 2 : node.begin]:
        shape = f"{shape[1:]}({shape[0]}"  # as _TO_ROWS has it
    if "*" not in shape:
        kind = " ".join(word for word in kind.split() if word != "volatile")
    name = (node["name"] or node).text if node.type.endswith(("identifier", "_function")) else ""
    return Declared(
        declaration, words, name, kind, shape, tuple(sizes), tuple(parameters), outer["value"],
        outer.begin, end,
    )  # fmt: skip
