"""LLVM's intrinsics by name: ``tir.call_llvm_intrin`` and ``tir.call_llvm_pure_intrin``.

LLVM ends the process for an instruction that the processor has not, and calls a function that
nobody has for a name that it does not know. A child process is asked first, once for each set of
intrinsics and each processor.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING

from whet.compiler.codegen.llvm.text import types as ty
from whet.compiler.codegen.outside import handed_buffer, memory_of
from whet.compiler.errors import CodegenError
from whet.compiler.jit.compile import Machine
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import Call, PrimExpr, StringImm, Var

if TYPE_CHECKING:
    from whet.compiler.codegen.llvm.expressions import Expressions

NAMES = ("call_llvm_intrin", "call_llvm_pure_intrin")
_SECONDS = 60
_CHILD = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple, cpu, features, abi = sys.argv[1:]
machine = llvm.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default", abiname=abi)
module = llvm.parse_assembly(sys.stdin.read())
module.verify()
print(machine.emit_assembly(module))
"""


def call_llvm(x: Expressions, n: Call) -> str:
    """A call of an intrinsic; what follows its name and the number of overloaded types."""
    name, _, *args = n.args
    if not isinstance(name, StringImm):
        raise CodegenError(n.op, "its first argument is not the intrinsic's name")
    given = [_argument(x, a) for a in args]
    result = _type(n.dtype)
    declared = f"declare {result} @{name.value}({', '.join(kind for kind, _ in given)})"
    known = x.scope.module.intrinsics.setdefault(name.value, declared)
    if known != declared:
        raise CodegenError(
            f"{n.op}({name.value!r})",
            f"it is called with other types, too: {known}",
            "name each with its types, e.g. llvm.fma.v8f32 and llvm.fma.v4f32",
        )
    literals = tuple("" if "%" in v else v for _, v in given)
    x.scope.module.uses[declared, literals] = None
    call = f"call {result} @{name.value}({', '.join(f'{kind} {v}' for kind, v in given)})"
    value = x.out.here(call)
    for a in args:
        if (b := handed_buffer(a)) is not None:
            x.scope.touch(b)
    if dt.element(n.dtype) != "bfloat16":
        return value
    return x.out.cast("bitcast", result, value, ty.type_of(n.dtype))


def _argument(x: Expressions, a: PrimExpr) -> tuple[str, str]:
    if a.dtype == "handle":
        held = memory_of(a, x.scope.memory) if isinstance(a, Var) else x.value(a)
        return "ptr", held
    value, kind = x.value(a), _type(a.dtype)
    if dt.element(a.dtype) == "bfloat16":  # whose bits are kept as integers
        value = x.out.cast("bitcast", ty.type_of(a.dtype), value, kind)
    return kind, value


def _type(dtype: str) -> str:
    kind = ty.type_of(dtype)
    return kind.replace("i16", "bfloat") if dt.element(dtype) == "bfloat16" else kind


Use = tuple[str, tuple[str, ...]]
"""An intrinsic's declaration, and its arguments: constants, and "" for those that vary."""


def check_intrinsics(uses: tuple[Use, ...], machine: Machine) -> None:
    """Refuse intrinsics that LLVM does not know, or has no instructions for on a processor.

    Raises:
        CodegenError: naming the intrinsic.
    """
    why = _refusal(uses, machine) if uses else ""
    if not why:
        return
    for one in uses if len(uses) > 1 else ():
        check_intrinsics((one,), machine)
    name = uses[0][0].partition("@")[2].partition("(")[0]
    raise CodegenError(
        f"call {name}",
        f"{machine.target} cannot: {why}",
        "the name and the types are those of LLVM's intrinsic, and the processor must have the "
        "instruction: target.features says what it has",
    )


@functools.cache
def _refusal(uses: tuple[Use, ...], machine: Machine) -> str:
    declared = dict.fromkeys(declaration for declaration, _ in uses)
    text = "\n".join([*declared, *[_function(k, use) for k, use in enumerate(uses)]])
    made, why = ended_with(text, machine)
    called = re.search(r"\bllvm\.[\w.]+", "\n".join(_code(made)))
    return why or (f"LLVM has no intrinsic {called[0]}" if called else "")


def ended_with(text: str, machine: Machine) -> tuple[str, str]:
    """The assembly that a child process makes of LLVM text, and why it did not, or ""."""
    import subprocess  # which takes a while to load

    words = [machine.triple, machine.cpu, machine.features, machine.abi]
    command = [sys.executable, "-c", _CHILD, *words]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {_SECONDS} seconds"
    if done.returncode == 0:
        return done.stdout, ""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    fatal = [x for x in said if "LLVM ERROR" in x or "Error" in x or "ssert" in x]
    return "", (fatal or said or [f"LLVM ended with {done.returncode}"])[-1]


def _code(assembly: str) -> list[str]:
    """The lines of instructions and addresses, without comments."""
    return [line.partition("#")[0] for line in assembly.splitlines()]


def _function(number: int, use: Use) -> str:
    """A function that calls an intrinsic, with its own arguments where they vary."""
    declaration, literals = use
    head, _, rest = declaration.removeprefix("declare ").partition("@")
    name, _, kinds = rest.rstrip(")").partition("(")
    types = re.split(r",\s*", kinds) if kinds else []
    params = [f"{kind} %a{k}" for k, kind in enumerate(types)]
    given = ", ".join(f"{t} {v}" if v else p for t, v, p in zip(types, literals, params))
    result = head.strip()
    return (
        f"define {result} @use{number}({', '.join(params)}) {{\n"
        f"  %r = call {result} @{name}({given})\n  ret {result} %r\n}}"
    )
