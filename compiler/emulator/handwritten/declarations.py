"""Declarations of CUDA C as those of memory that the emulator watches.

::

    float *p = x, *q;                  WHET_POINTER(float) p = x, q;
    __shared__ float t[8][9];          WHET_SHARED_ROWS(float, t, 8, 9);
    __constant__ float c[4] = {1};     WHET_CONSTANT(float, c, [4], = {1});
    float (*t)[33]                     WHET_ROWS_POINTER(float, t, 33)   (and t[][33] of parameters)
    float (&t)[32][33]                 WHET_ROWS_REFERENCE(float, t, 32, 33)
    float acc[4], rest;                WHET_LOCAL(float, acc, 4); float rest;
    __shared__ typename T::Storage s;  typedef .. s_kind; WHET_SHARED_ONE(s_kind, s);
    float &r = tile[i];                WHET_REFERENCE(float) r = tile[i];
    auto &r = tile[i];                 auto &&r = tile[i];
    void inc(float &a) ..              void inc(WHET_REFERENCE(float) a) ..   (given such)
"""

from __future__ import annotations

import re
from collections import defaultdict

from whet.compiler.emulator.handwritten.syntax import (
    DECLARATIONS,
    Declared,
    Node,
    Syntax,
    declared_by,
    parts_of_type,
)

_NUMBER = re.compile(
    r"(?:(?:unsigned|signed|long|short|int|char|float|double|bool)\b ?)+"
    r"|u?int(?:8|16|32|64)_t|size_t"
)
_ZEROS = re.compile(r"\{\s*(?:0(?:\.0*)?f?)?\s*\}")
_TO_ROWS = re.compile(r"\[+\([*&]")
_FUNCTIONS = ("function_definition", "lambda_expression")
_HANDED = ("argument_list", "initializer_list", "parenthesized_expression")
_CLASSES = ("class_specifier", "struct_specifier", "union_specifier")


class Declarations:
    """The declarations of a text, and its names by their memory.

    Args:
        syntax: the text; its declarations are edited.

    Attributes:
        watched: names whose elements are watched objects.
        values: names whose elements are watched, and read as values: memory that is only read.
        single: names of shared variables that are no arrays.
    """

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self.watched: set[str] = set()
        self.values: set[str] = set()
        self.single: set[str] = set()
        self._unwatched: dict[Declared, str] = {}
        self._all = syntax.declared(*DECLARATIONS)
        self._uses: dict[str, list[Node]] = defaultdict(list)
        for node in syntax.all("identifier"):
            self._uses[node.text].append(node)
        self._calls: dict[str, list[list[Node]]] = defaultdict(list)
        for node in syntax.all("call_expression"):
            self._calls[called_name(node)].append(node["arguments"].children)
        self._changing = {"swap"} | {  # functions that may change what they are given
            d.node.parent.parent["declarator"].text
            for d in self._all
            if "&" in d.shape and "const" not in d.words and d.is_parameter
        }
        self._written: dict[Declared, tuple[str, str, int]] = {}

    def unwatched(self) -> tuple[str, ...]:
        """Memory that stayed as it was declared, in words, in the order of the text."""
        nouns = self._unwatched
        return tuple(dict.fromkeys(f"the {nouns[d]} {d.name}" for d in self._all if d in nouns))

    def rewrite(self) -> None:
        """Edit all declarations."""
        for d in self._all:
            self._memory(d)
        while any([self._reference(d) for d in self._all if d.shape == "&"]):
            pass  # references to references
        for node in self.syntax.all(*DECLARATIONS):
            self._edit(node, declared_by(node))

    def _memory(self, d: Declared) -> None:
        """Find the watched form of a declarator; of references, later."""
        names = ", ".join([d.kind, d.name, *d.sizes])
        pointer = d.shape in (")", "*") and not {"void", "auto"} & d.words
        if d.node.parent.type == "template_parameter_list":
            return
        if pointer:
            (self.values if "const" in d.words else self.watched).add(d.name)
        if "__shared__" in d.words:
            self._shared(d)
        elif "__constant__" in d.words:
            self._constant(d)
        elif pointer and d.shape == "*":
            self._write(d, f"WHET_POINTER({d.kind})", d.name)
        elif _TO_ROWS.fullmatch(d.shape) or (d.is_parameter and d.shape.startswith("[[")):
            what = "REFERENCE" if d.shape[-1] == "&" else "POINTER"
            if d.shape[-1] == "[":
                names = ", ".join([d.kind, d.name, *d.sizes[1:]])
            self._write(d, f"WHET_ROWS_{what}({names})")
            self.watched.add(d.name)
        elif self._is_local(d):
            suffix = "_ZEROS" if d.value else "_ROWS" if len(d.sizes) > 1 else ""
            self._write(d, f"WHET_LOCAL{suffix}({names})", "", d.value)

    def _write(self, d: Declared, head: str, rest: str = "", value: Node | None = None) -> None:
        """Let a type and what follows it stand for a declarator, and for its value where given."""
        self._written[d] = head, rest, value.end if value else d.end

    def _shared(self, d: Declared) -> None:
        if d.value or d.shape.strip("["):
            return  # nvcc refuses the one, the other is no array
        kind, before = d.kind, ""
        if re.search(r"[<,]|\btypename\b", kind):
            kind, before = f"{d.name}_kind", f"typedef {kind} {d.name}_kind; "
        names = ", ".join([kind, d.name, *d.sizes])
        if "extern" in d.words:
            scope = "" if d.node.within(*_FUNCTIONS) else "FILE_"
            macro, names = f"{scope}ARENA", f"{kind}, {d.name}"
        elif self._used_whole(d):
            macro, names = "PLAIN", f"{kind}, {d.name}, {_in_brackets(d)}"
            self._unwatched[d] = "shared variable"
        elif d.sizes:
            macro = "ROWS"
        else:
            macro = "ONE"
            self.single.add(d.name)
        if macro != "PLAIN":
            self.watched.add(d.name)
        self._write(d, f"{before}WHET_SHARED_{macro}({names})")

    def _constant(self, d: Declared) -> None:
        kind, sizes = d.kind.removeprefix("const "), _in_brackets(d)
        value = self.syntax.data[d.end : d.value.end or d.end].decode()
        value = " ".join(value.split()) or "{}"
        uses = {use.parent.type for use in self._uses[d.name] if use.within("sizeof_expression")}
        if "*" in d.shape:
            return
        if sizes and "," not in kind and uses <= {"subscript_expression"}:
            self.values.add(d.name)
            self._write(d, f"WHET_CONSTANT({kind}, {d.name}, {sizes}, {value})", "", d.value)
            return
        self._write(d, f"__constant__ {kind} {d.name}{sizes} {value}", "", d.value)
        if sizes:
            self._unwatched[d] = "device's array"

    def _is_local(self, d: Declared) -> bool:
        """True of an array of numbers in a function of which elements alone are used."""
        block = d.node.parent
        return (
            set(d.shape) == {"["}
            and block.type == "compound_statement"
            and block.parent.type != "switch_statement"  # whose jumps pass declarations over
            and d.words == {d.kind}
            and _NUMBER.fullmatch(d.kind) is not None
            and (not d.value or _ZEROS.fullmatch(d.value.text) is not None)
            and not re.search(rb"\b(?:goto|auto)\b", self.syntax.data[d.end : block.end])
            and all(self._is_plain_element(use, len(d.sizes)) for use in self._uses_of(d))
        )

    def _uses_of(self, d: Declared) -> list[Node]:
        """The uses of a name behind its declaration, in its block."""
        return [use for use in self._uses[d.name] if d.end <= use.begin < d.node.parent.end]

    def _is_plain_element(self, node: Node, dimensions: int) -> bool:
        """True where an element of an array is read or written, and nothing else is done."""
        for _ in range(dimensions):
            if node.parent.type != "subscript_expression" or node.parent["argument"] != node:
                return False
            node = node.parent
        outer = node.parent.parent if node.parent.type == "initializer_list" else node.parent
        if outer.type == "argument_list":
            return called_name(outer.parent) not in self._changing
        if outer.type == "init_declarator":
            return outer["declarator"].type != "reference_declarator"
        if outer.type == "pointer_expression":
            return outer["operator"].text != "&"
        return outer["argument"] != node

    def _used_whole(self, d: Declared) -> bool:
        """True of a variable of a class that is handed to a function, or has its methods called."""
        if _NUMBER.match(d.kind) or d.kind.startswith("half"):
            return False
        for use in self._uses_of(d):
            node = use
            while node.parent.type == "subscript_expression":
                node = node.parent
            if node.parent.type == "field_expression" and node.parent.parent["function"]:
                return True
            if node == use and node.parent.type in _HANDED:
                return True
        return False

    def _reference(self, d: Declared) -> bool:
        """Let a reference to a watched element stand for it; True: it does so from now on."""
        if d in self._written:
            return False
        auto, function = "auto" in d.words, d.node.parent.parent
        if not d.is_parameter:
            values = d.value.type == "initializer_list" and d.value.children
            given = [values[0] if values else d.value]
        else:
            around = function.within("function_definition", "declaration").parent.type
            if function.type != "function_declarator" or auto or around == "template_declaration":
                return False
            number = d.node.parent.children.index(d.node)
            calls = self._calls[function["declarator"].text]
            given = [call[number] for call in calls if number < len(call)]
        if not any(map(self._is_watched_element, given)):
            return False
        self._write(d, "auto" if auto else f"WHET_REFERENCE({d.kind})", "&&" * auto + d.name)
        self.watched.add(d.name)
        return True

    def _is_watched_element(self, node: Node) -> bool:
        """True of an element of watched memory, as it stands: ``s[i].x``, ``*p``, ``*(p + 1)``."""
        if node.type == "pointer_expression" and node["operator"].text == "*":
            return re.findall(r"\w+", node.text)[0] in self.watched
        while node.type in ("subscript_expression", "field_expression"):
            node = node["argument"]
        return node.type == "identifier" and node.text in self.watched

    def _edit(self, node: Node, declared: list[Declared]) -> None:
        """Edit a declaration: one, or one for each name where their watched types differ."""
        written = [self._written.get(d) for d in declared]
        begin, joined = node.begin, all(text and text[1] for text in written)
        if not any({"__shared__", "__constant__"} & d.words for d in declared):
            begin = min((part.begin for part in parts_of_type(node)), default=begin)
        several = len(written) > 1 and not joined
        if several and (begin != node.begin or node.parent.type == "for_statement"):
            written = [None] * len(written)
        for d, text in zip(declared, written):
            if text is None:
                self._stays(d)
        if not any(written):
            return
        for k, (d, text) in enumerate(zip(declared, written)):
            plain = self.syntax.data[d.begin : d.end].decode()
            head, rest, end = text or (d.kind, plain, d.end)
            words = rest if k and joined else f"{head} {rest}".strip()
            self.syntax.replace(begin, end, (", " if joined else "; ") * bool(k) + words)
            begin = d.value.end or d.end

    def _stays(self, d: Declared) -> None:
        """Note memory that is not watched, and drop ``volatile`` where no pointer is."""
        function = d.node.within(*_FUNCTIONS, *_CLASSES).type in _FUNCTIONS
        if "f" in d.shape or not d.name:
            pass
        elif "*" in d.shape or (d.is_parameter and "[" in d.shape):
            self._unwatched[d] = "pointer"
        elif "[" in d.shape and (function or {"__device__", "__constant__"} & d.words):
            self._unwatched[d] = "local array" if function else "device's array"
        for part in parts_of_type(d.node):
            if part.text == "volatile" and "*" not in d.shape:
                self.syntax.replace(part.begin, part.end, "")


def called_name(call: Node) -> str:
    """The name of the function that a call calls."""
    function = call["function"]
    return (function["name"] or function["field"] or function).text


def _in_brackets(d: Declared) -> str:
    return "".join(f"[{size}]" for size in d.sizes)
