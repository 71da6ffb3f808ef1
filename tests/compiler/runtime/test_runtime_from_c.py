"""Exported libraries in C programs, with no Python: results, errors, functions, threads, forks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from linked_programs import C_PACKED, C_PARALLEL, C_VADD, compiled, fills, parallel
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, module

from whet.compiler import driver, settings, te
from whet.compiler.runtime import include_dir

pytestmark = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None, reason="no C compiler here"
)


@pytest.fixture(scope="module")
def built():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW))


@pytest.mark.parametrize("ending", ["so", "o"])
def test_a_c_program_calls_a_kernel(built, tmp_path, ending):
    built.export_library(tmp_path / f"k.{ending}")
    program = compiled(tmp_path, C_VADD, f"./k.{ending}")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    right, shape, count, null, about = done.stdout.splitlines()
    assert right == "ok: 11 22 33 44 55"
    assert shape == "1 2 0: argument 2: shape[0] is not what the kernel wants"
    assert count == "the number of arguments is wrong"
    assert null == "argument 1: null"
    assert [s["name"] for s in json.loads(about)["signatures"]] == ["vadd", "mixed"]
    needs = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "python" not in needs.lower()


def test_the_header_is_cpp_too():
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    header = Path(include_dir()) / "whet" / "runtime.h"
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++"]
    done = subprocess.run([compiler, *strict, header], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_cpp_program_calls_a_kernel(built, tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    built.export_library(tmp_path / "k.so")
    (tmp_path / "main.cpp").write_text(C_VADD)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include_dir()}"]
    command = [compiler, *strict, "main.cpp", "./k.so", f"-Wl,-rpath,{tmp_path}", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ok: 11 22 33 44 55\n")


def test_the_header_knows_every_code():
    from whet.compiler.abi import checks as entry
    from whet.compiler.abi import packed_call as values

    text = (Path(include_dir()) / "whet" / "runtime.h").read_text()
    for number, name in entry.CHECKS.items():
        assert f"WHET_CHECK_{name.upper()} = {number}" in text
    assert f"WHET_NO_MEMORY = {entry.NO_MEMORY}" in text
    assert f"WHET_PACKED_RAISED = {entry.PACKED_RAISED}" in text
    assert f"WHET_FIRST_ASSERT = {entry.FIRST_ASSERT}" in text
    for name in ("INT", "FLOAT", "HANDLE", "NOTHING", "ARRAY", "TEXT"):
        assert f"WHET_{name} = {getattr(values, name)}" in text


def test_a_c_program_passes_a_tensor_twice(tmp_path):
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    driver.build(s, [A, A, B], "llvm", name="vadd").export_library(tmp_path / "k.so")
    program = compiled(tmp_path, C_VADD, "./k.so")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    why = "argument 1: not the array of another argument that is the same tensor"
    assert done.stdout.startswith(why)


def test_a_c_program_gives_packed_functions(tmp_path):
    fills().export_library(tmp_path / "k.so")
    done = subprocess.run(
        [compiled(tmp_path, C_PACKED, "./k.so")], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "a packed function failed, or whet_set_packed_caller was not called"
    assert second == "ok 5.5 5.5"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ending", ["so", "o"])
def test_a_parallel_kernel_brings_its_threads(tmp_path, workers, ending):
    parallel().export_library(tmp_path / f"k.{ending}")
    program = compiled(tmp_path, C_PARALLEL, f"./k.{ending}")
    env = os.environ | {"WHET_NUM_THREADS": str(workers)}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout == f"{workers} 0 0 0\n"


def test_the_library_counts_threads_as_the_process_does(tmp_path):
    path = parallel().export_library(tmp_path / "k.so")
    program = compiled(tmp_path, C_PARALLEL, "./k.so")
    env = {k: v for k, v in os.environ.items() if k != "WHET_NUM_THREADS"}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    count = "import whet; print(whet.runtime.num_threads())"
    told = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, env=env)
    assert done.stdout.split()[0] == told.stdout.strip()
    code = f"import whet; whet.runtime.load_module({path!r})"
    wrong = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env | {"WHET_NUM_THREADS": "x"},
    )
    assert "must be an integer" in wrong.stderr


def test_objects_of_two_modules_in_one_program(built, tmp_path):
    built.export_library(tmp_path / "one.o")
    parallel().export_library(tmp_path / "two.o")
    text = C_PARALLEL.replace("int main(void) {", "WHET_KERNEL(vadd);\n\nint main(void) {").replace(
        'printf("%d", threads());', 'printf("%d", threads() + (vadd(NULL, 0) == 0));'
    )
    program = compiled(tmp_path, text, "one.o", "two.o")
    env = os.environ | {"WHET_NUM_THREADS": "2"}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout == "2 0 0 0\n"
