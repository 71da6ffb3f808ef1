"""A check that LLVM takes a processor and its features, in a process that may die of it.

LLVM ends the process for some wrong combinations (a 32-bit processor for a 64-bit triple), and only
warns of a name that it does not know. A child process is asked first, once for each combination;
what is known to be safe needs no child.
"""

from __future__ import annotations

import functools
import sys

from whet.compiler.errors import TargetError
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_NEEDS, parse_mattr
from whet.compiler.target.machine.processors import X86_64, architecture_of

_SECONDS = 60
_CHILD = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple, cpu, features, abi = sys.argv[1:]
machine = llvm.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default", abiname=abi)
machine.emit_object(llvm.parse_assembly('''
define float @f(float %x, double %y, ptr %p, i64 %n) {
  %a = fadd float %x, %x
  %v = load <4 x float>, ptr %p
  %w = fmul <4 x float> %v, %v
  store <4 x float> %w, ptr %p
  %z = fptrunc double %y to float
  %k = sitofp i64 %n to float
  %b = fadd float %a, %z
  %c = fmul float %b, %k
  ret float %c
}'''))
"""


def check_machine(triple: str, mcpu: str, mattr: str, mabi: str = "") -> None:
    """Refuse a processor or a feature that LLVM does not know, or would end the process for.

    Raises:
        TargetError: with what LLVM says.
    """
    if _known(triple, mcpu, mattr, mabi):
        return
    why = _refusal(triple, mcpu, mattr, mabi)
    if why:
        raise TargetError(
            f"code for {triple}, processor {mcpu!r}, features {mattr!r}",
            f"LLVM: {why}",
            "names are those of `llc -mtriple=<triple> -mcpu=help`; a generic processor has none",
        )


def _known(triple: str, mcpu: str, mattr: str, mabi: str) -> bool:
    arch = architecture_of(triple)
    if mabi:
        return False
    if arch == "x86_64":
        return mcpu in X86_64 and all(name in X86_NEEDS for _, name in parse_mattr(mattr))
    if mcpu != "generic":
        return False
    if not mattr:
        return True
    own = arch == host.architecture()
    return own and {name for _, name in parse_mattr(mattr)} <= host.features()


@functools.cache
def _refusal(triple: str, mcpu: str, mattr: str, mabi: str) -> str:
    import subprocess  # which takes a while to load

    command = [sys.executable, "-c", _CHILD, triple, mcpu, mattr, mabi]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} seconds"
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode != 0:
        fatal = [x for x in said if "LLVM ERROR" in x or "Error" in x or "ssert" in x]
        return (fatal or said or [f"it ended with {done.returncode}"])[-1]
    return next((x for x in said if "not a recognized" in x), "")
