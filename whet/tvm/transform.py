"""Running and writing passes: the context, passes of modules, sequences (TVM's ``transform``).

>>> import whet
>>> from whet import te, transform
>>> A = te.placeholder((8,), name="A")
>>> B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
>>> with transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
...     print(whet.lower(te.create_schedule(B.op), [A, B]))
def main(A: float32[8], B: float32[8]):
    for i in unrolled(8):
        B[i] = A[i] + float32(1.0)
"""

from whet.compiler.passes.authoring import Pass, PassInfo, PrintIR, Sequential, module_pass
from whet.compiler.passes.context import PassContext

__all__ = ["Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass"]
