"""C programs that are linked with exported libraries, and kernels to export."""

import subprocess

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.runtime import include_dir


def compiled(tmp_path, text, *libraries):
    """A C program linked with libraries."""
    (tmp_path / "main.c").write_text(text)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include_dir()}"]
    command = [*settings.c_compiler().split(), *strict, "main.c", *libraries, "-o", "main"]
    done = subprocess.run(
        [*command, "-lm", "-pthread", f"-Wl,-rpath,{tmp_path}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return str(tmp_path / "main")


def parallel(n=1000):
    """``B = A + 1`` with a parallel loop."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    return whet.build(s, [A, B], "llvm", name="f")
