"""Expressions of CUDA C where C++ would take a watched element itself, or a plain pointer.

A watched element is an object that stands for a place and converts to its number. It has no members
of its type; beside an int it would become an int, and 0.5 be 0; and ``auto``, or a template's type,
would be the object's, which is the memory::

    (float4 *)p                    (WHET_POINTER(float4))p
    reinterpret_cast<int *>(p)     WHET_SEEN_AS(int)(p)
    &x[4 * i]                      (x + static_cast<long long>(4 * i))     (of what is only read)
    p[i].x = 1; q->y               WHET_MEMBER(x, p[i]) = 1; WHET_MEMBER(y, *(q))
    c ? s[i] : 0                   c ? whet_emulator::value_of((s[i])) : 0
    auto v = s[i];                 auto v = whet_emulator::value_of((s[i]));
    template <class T> T f(T v);   f(whet_emulator::value_of((s[i])))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whet.compiler.emulator.handwritten.declarations import Declarations, called_name
from whet.compiler.emulator.handwritten.syntax import Node, Syntax, declared_by

_NUMBER = re.compile(r"[-+]?\s*(?:\d[\w.]*|\.\d\w*)")
_BITS = re.compile(r"\b(\w+)\s*:\s*\d+\s*[;,]")
_CASTS = ("reinterpret_cast", "static_cast", "const_cast")
_PLAIN = {"threadIdx", "blockIdx", "blockDim", "gridDim", "this"}


def rewrite_expressions(syntax: Syntax, declarations: Declarations) -> None:
    """Edit all expressions of a text.

    Args:
        syntax: the text.
        declarations: its names.
    """
    for d in syntax.declared("type_descriptor"):
        named = d.node.parent.parent
        if d.shape != "*" or "void" in d.words:
            continue
        if d.node.parent.type == "cast_expression":
            syntax.replace(d.node.begin, d.node.end, f"WHET_POINTER({d.kind})")
        elif named["name"].text in _CASTS:
            syntax.replace(named.begin, named.end, f"WHET_SEEN_AS({d.kind})")
    members = list(_members(syntax, declarations.watched))
    for node in (
        *_arms(syntax),
        *_auto_values(syntax, declarations.single, members),
        *_values_of_templates(syntax, declarations.single),
    ):
        syntax.wrap(node, "whet_emulator::value_of((", "))")
    for node in syntax.all("pointer_expression"):
        element, index = node["argument"], node["argument"]["indices"]
        name = element["argument"].text
        if node["operator"].text == "&" and index and name in declarations.values:
            begin = f"({name} + static_cast<long long>("
            syntax.replace(node.begin, index.begin + 1, begin)
            syntax.replace(index.end - 1, node.end, "))")
    for node in members:
        pointer = node["operator"].text == "->"
        syntax.wrap(node, f"WHET_MEMBER({node['field'].text}, {'*(' * pointer}", "")
        syntax.replace(node["argument"].end, node.end, "))" if pointer else ")")


def _members(syntax: Syntax, watched: set[str]) -> Iterator[Node]:
    """Members of watched elements, but for bit fields and methods."""
    bits = {
        Node(syntax, node.raw.prev_named_sibling).text for node in syntax.all("bitfield_clause")
    }
    for node in syntax.all("field_expression"):
        words = set(re.findall(r"\b[A-Za-z_]\w*", node["argument"].text.partition("[")[0]))
        method = node.parent["function"] == node
        if words & watched and not words & _PLAIN and not method and node["field"].text not in bits:
            yield node


def _arms(syntax: Syntax) -> Iterator[Node]:
    """Elements between which, and a number or another value, a condition chooses."""
    for node in syntax.all("conditional_expression"):
        arms = [node["consequence"], node["alternative"]]
        for arm, other in zip(arms, reversed(arms)):
            own, beside = arm.text, other.text
            number = "[" in own or _NUMBER.fullmatch(beside)
            if number and "[" not in beside and not _NUMBER.fullmatch(own):
                yield arm


def _auto_values(syntax: Syntax, single: set[str], members: list[Node]) -> Iterator[Node]:
    """The values of variables of type ``auto`` that may be elements."""
    for d in syntax.declared("declaration"):
        value = d.value
        if d.shape or d.kind not in ("auto", "const auto") or value.type == "lambda_expression":
            continue
        member = any(value.begin <= node.begin < value.end for node in members)
        if member or "[" in value.text or _is_element(value, single):
            yield value


def _values_of_templates(syntax: Syntax, single: set[str]) -> Iterator[Node]:
    """Elements that are given to templates of functions for parameters that are values."""
    by_value: dict[str, list[bool]] = {}
    for node in syntax.all("template_declaration"):
        typed = re.search(r"\b(?:typename|class)\b", node["parameters"].text)
        for d in declared_by(node.children[-1]) if typed else ():
            takes = [
                all(
                    p.shape == "" or (p.shape == "&" and "const" in p.words) for p in declared_by(q)
                )
                for q in d.parameters
            ]
            by_value[d.name] = [a and b for a, b in zip(takes, by_value.get(d.name, takes))]
    for call in syntax.all("call_expression"):
        takes = by_value.get(called_name(call), [])
        for value, argument in zip(takes, call["arguments"].children):
            if value and _is_element(argument, single):
                yield argument


def _is_element(node: Node, single: set[str]) -> bool:
    """True of an element with which nothing is computed: ``a[i][j]``, ``*p``, ``*(p + 1)``."""
    if node.type == "pointer_expression":
        plain = node["argument"].type in ("identifier", "parenthesized_expression")
        return plain and node["operator"].text == "*"
    root = node
    while root.type == "subscript_expression":
        root = root["argument"]
    return root.type == "identifier" and (root != node or root.text in single)
