"""Packages for tests: their tasks, files with a right checksum and any index, a C program."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

import whet
from whet.compiler import settings
from whet.compiler.runtime.package import container
from whet.compiler.runtime.package.processor import features
from whet.compiler.target.machine.features import X86_LEVELS

LEVELS = [name for name, needed in X86_LEVELS[-2::-1] if needed <= features()]
"""x86-64's levels that code is made for here, the narrowest first: ``WHET_CPU`` may hide some."""
DENSE = (16, 64, 64, "float32", ("bias", "relu"), True)
MATMUL = (24, 40, 56)
BASE = 1 << 18
"""The first library's place in files of :func:`sealed`: behind every index that a test makes."""

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("llvmlite", "sqlalchemy", "optuna", "xgboost", "ray", "click"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
"""


def tasks():
    """Three kernels: a parallel one with packed weights, a plain one, one named as C's ``exp``."""
    return {
        "dense": whet.create_task("dense", args=DENSE, target="llvm -num-threads=2"),
        "product": whet.create_task("matmul", args=MATMUL, target="llvm"),
        "exp": whet.create_task("matmul", args=(8, 8, 8), target="llvm"),
    }


def check_numbers(package):
    """Compare the kernels of :func:`tasks` with numpy."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype("float32") for s in ((24, 40), (40, 56), (24, 56)))
    package["product"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    x, w, y = (rng.standard_normal(s).astype("float32") for s in ((16, 64), (64, 64), (16, 64)))
    bias = rng.standard_normal(64).astype("float32")
    dense = package["dense"]
    dense(x, dense.pack_weights(w), bias, y)
    np.testing.assert_allclose(y, np.maximum(x @ w.T + bias, 0), rtol=1e-4, atol=1e-4)
    e = np.empty((8, 8), "float32")
    package["exp"](np.eye(8, dtype="float32"), a[:8, :8].copy(), e)
    np.testing.assert_allclose(e, a[:8, :8], rtol=1e-6)


def index_and_blobs(data):
    """A package's index, its libraries moved to :data:`BASE`, and their bytes."""
    index = container.unpacked("test", data)
    first = min(one["offset"] for one in index["libraries"])
    for one in index["libraries"]:
        one["offset"] += BASE - first
    return index, data[first : -container.DIGEST]


def sealed(index, blobs, version=container.VERSION, length=None):
    """A file with this index, a dict or bytes, its libraries at :data:`BASE`, a right checksum."""
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    head = struct.pack(
        "<8sIIQ", container.MAGIC, version, 0, len(text) if length is None else length
    )
    assert len(head + text) <= BASE
    data = (head + text).ljust(BASE, b"\0") + blobs
    return data + hashlib.sha256(data).digest()


def environment(**more):
    """The environment of another process that finds what this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | more


def python(code, *arguments, **env):
    """Run code in a process that can import neither LLVM, a log nor a search; its output."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, env=environment(**env),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiler():
    """The C compiler's command; empty where there is none."""
    command = settings.c_compiler().split()
    return command if shutil.which(command[0]) and sys.platform.startswith("linux") else []


def compiled(source: Path, output: Path, *options: str, command=()):
    """Compile a C program against Whet's headers, warnings refused; the program."""
    include = f"-I{whet.runtime.include_dir()}"
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
    done = subprocess.run(
        [*(command or compiler()), *strict, *options, include, source, "-o", output, "-ldl"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return output
