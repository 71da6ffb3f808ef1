"""The functions of a CUDA file: its kernels, those of the host, and one of a template's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from whet.compiler.emulator.handwritten.syntax import Node, Syntax, declared_by, without_comments
from whet.compiler.errors import ArgumentError

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_DEVICE = r"\b__(?:global|device|constant|shared|managed)__\b"
_NO_VARIABLE = re.compile(
    r"\b(?:__\w+__|const|constexpr|typedef|using|extern|template|struct|class|union|enum)\b"
)
_AROUND = ("template_declaration", "linkage_specification")


def host_part(source: str) -> tuple[str, frozenset[str]]:
    """A text without the host's functions and variables, lines where they were, and their names.

    Args:
        source: CUDA C.
    """
    syntax = Syntax(without_comments(source))
    macros, device = dict(_MACRO.findall(source)), _DEVICE
    for macro, value in macros.items():
        if re.search(device, value):
            device += rf"|\b{macro}\b"
    names, unread = set(), ""
    for node in _of_file(syntax.root):
        head, unread, function = unread + node.text, "", node
        while function.type in _AROUND:
            function = function.children[-1]
        if node.type == "ERROR":
            unread = head  # maybe the first words of what follows
        elif function.type == "function_definition":
            if not re.search(device, head.removesuffix(function["body"].text)):
                names |= {d.name for d in declared_by(function)}
                syntax.replace(node.begin, node.end, "")
        elif node.type == "declaration" and not _NO_VARIABLE.search(head):
            declared = declared_by(node)
            if not any("f" in d.shape or macros.keys() & d.kind.split() for d in declared):
                names |= {d.name for d in declared}
                syntax.replace(node.begin, node.end, "")
    return syntax.edited(), frozenset(names)


def _of_file(node: Node) -> Iterator[Node]:
    """The declarations of a file, those between ``#if`` and ``#endif`` too."""
    for child in node.children:
        if child.type.startswith("preproc_"):
            yield from _of_file(child)
        else:
            yield child


def with_kernels(source: str, names: Collection[str]) -> str:
    """A text without the kernels of other names, lines where they were.

    Args:
        source: CUDA C.
        names: of the kernels that stay.

    Raises:
        ArgumentError: it has none of one of these names.
    """
    syntax, known = Syntax(source), []
    for d in syntax.declared("function_definition", "declaration", "template_instantiation"):
        if "__global__" not in d.words:
            continue
        if d.node.type == "function_definition":
            known.append(d.name)
        if d.name not in names:
            whole = d.node
            while whole.parent.type in _AROUND:
                whole = whole.parent
            syntax.replace(whole.begin, whole.end, "")
    missing = next((n for n in names if n not in known), None)
    if missing is None or not known:  # a macro's, maybe
        return syntax.edited()
    raise ArgumentError(
        f"emulating the kernel {missing!r}",
        f"the text has {len(known)}: {', '.join(known)}",
        "name one of them",
    )


def instance(source: str, kernel: str, arguments: Sequence[str]) -> str:
    """The text with a kernel in the place of its template, lines where they were.

    ``template <int N, typename T> __global__ void f(T *x)`` becomes ``constexpr int N = 32; using T
    = float; __global__ void f(T *x)``. Templates of the same text whose parameters have these names
    hide them.

    Args:
        source: CUDA C.
        kernel: its name.
        arguments: the template's, in order; those that have defaults may be missing.

    Raises:
        ArgumentError: the kernel is no template, or not one of such arguments.
    """
    syntax = Syntax(source)
    launch = f"launching {kernel}<{', '.join(arguments)}>"
    for d in syntax.declared("function_definition"):
        template = d.node.parent
        if template.type == "template_declaration" and d.name == kernel:
            break
    else:
        raise ArgumentError(launch, f"{kernel} is no template", f"{kernel}<<<grid, block>>>(...)")
    parameters = template["parameters"].children
    if len(arguments) > len(parameters):
        takes = ", ".join(p.text for p in parameters)
        raise ArgumentError(launch, f"it takes {len(parameters)}: {takes}")
    given = [*arguments, *[""] * (len(parameters) - len(arguments))]
    definitions = [_definition(launch, p, argument) for p, argument in zip(parameters, given)]
    syntax.replace(template.begin, d.node.begin, " ".join([*definitions, ""]))
    return syntax.edited()


def _definition(launch: str, parameter: Node, argument: str) -> str:
    """The definition of a parameter of a template by its argument, or by its default."""
    text = " ".join(parameter.text.split())
    value = argument or (parameter["default_type"] or parameter["default_value"]).text
    declared = text.partition("=")[0].strip()
    match parameter.type.removeprefix("optional_"):
        case "type_parameter_declaration":
            definition = f"using {declared.split()[-1]} = {value};"
        case "parameter_declaration" if parameter["declarator"]:
            definition = f"constexpr {declared} = {value};"
        case _:
            raise ArgumentError(
                launch, f"its parameter {text!r} is neither a type nor a value", "write it for one"
            )
    if not value:
        raise ArgumentError(launch, f"it has no argument for {text!r}", "give one for each")
    return definition
