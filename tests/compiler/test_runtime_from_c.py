"""Exported libraries in C programs, with no Python: results, errors, functions, threads, forks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from linked_programs import compiled, parallel
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, module

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.runtime import include_dir

pytestmark = pytest.mark.skipif(
    shutil.which(settings.c_compiler().split()[0]) is None, reason="no C compiler here"
)


@pytest.fixture(scope="module")
def built():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW))


C_VADD = r"""
#include <whet/runtime.h>

WHET_KERNEL(vadd);

int main(void) {
  float a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50}, c[5] = {0};
  int64_t five[] = {5}, four[] = {4};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  DLTensor A = {a, cpu, 1, f32, five, NULL, 0};
  DLTensor B = {b, cpu, 1, f32, five, NULL, 0};
  DLTensor C = {c, cpu, 1, f32, five, NULL, 0};
  void *args[] = {&A, &B, &C};
  char text[200];
  int32_t code = vadd(args, 3);
  printf("%s:", whet_describe(code, text, sizeof text));
  for (int i = 0; i < 5; i++) printf(" %g", c[i]);
  printf("\n");
  C.shape = four;
  code = vadd(args, 3);
  printf("%d %d %d: %s\n", WHET_CODE_CHECK(code) == WHET_CHECK_SHAPE, WHET_CODE_ARG(code),
         WHET_CODE_DIM(code), whet_describe(code, text, sizeof text));
  printf("%s\n", whet_describe(vadd(args, 2), text, sizeof text));
  args[1] = NULL;
  printf("%s\n", whet_describe(vadd(args, 3), text, sizeof text));
  puts(whet_metadata);
  return 0;
}
"""


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
    from whet.compiler.codegen.llvm import entry
    from whet.compiler.runtime import values

    text = (Path(include_dir()) / "whet" / "runtime.h").read_text()
    for number, name in entry.CHECKS.items():
        assert f"WHET_CHECK_{name.upper()} = {number}" in text
    assert f"WHET_NO_MEMORY = {entry.NO_MEMORY}" in text
    assert f"WHET_PACKED_RAISED = {entry.PACKED_RAISED}" in text
    assert f"WHET_FIRST_ASSERT = {entry.FIRST_ASSERT}" in text
    for name in ("INT", "FLOAT", "HANDLE", "NOTHING", "ARRAY", "TEXT"):
        assert f"WHET_{name} = {getattr(values, name)}" in text


C_PACKED = r"""
#include <string.h>
#include <whet/runtime.h>

WHET_KERNEL(f);

static int32_t call(const char *name, const WhetValue *args, const int32_t *codes, int32_t n,
                    WhetValue *result, int32_t *result_code) {
  (void)result;
  if (strcmp(name, "c.fill") != 0 || n != 3 || codes[0] != WHET_ARRAY || codes[1] != WHET_FLOAT ||
      codes[2] != WHET_TEXT || *result_code != WHET_NOTHING)
    return 1;
  DLTensor *out = args[0].v_handle;
  for (int64_t i = 0; i < out->shape[0]; i++)
    ((float *)out->data)[i] = (float)args[1].v_float + (float)strlen(args[2].v_handle);
  return 0;
}

int main(void) {
  float c[5] = {0};
  int64_t five[] = {5};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  DLTensor C = {c, cpu, 1, f32, five, NULL, 0};
  void *args[] = {&C};
  char text[200];
  puts(whet_describe(f(args, 1), text, sizeof text));
  whet_set_packed_caller(call);
  whet_describe(f(args, 1), text, sizeof text);
  printf("%s %g %g\n", text, c[0], c[4]);
  return 0;
}
"""


def test_a_c_program_gives_packed_functions(tmp_path):
    out = te.extern(
        (5,),
        [],
        lambda i, o: whet.tir.call_packed("c.fill", o[0], 1.5, "four"),
        name="out",
        dtype="float32",
    )
    f = whet.build(te.create_schedule(out.op), [out], "llvm", name="f")
    f.export_library(tmp_path / "k.so")
    done = subprocess.run(
        [compiled(tmp_path, C_PACKED, "./k.so")], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "a packed function failed, or whet_set_packed_caller was not called"
    assert second == "ok 5.5 5.5"


C_PARALLEL = r"""
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <whet/runtime.h>

WHET_KERNEL(f);

static int threads(void) {
  int count = -2; /* . and .. */
  DIR *tasks = opendir("/proc/self/task");
  while (readdir(tasks) != NULL) count++;
  closedir(tasks);
  return count;
}

static void *run(void *wrong) {
  static const int n = 1000;
  float a[1000], b[1000];
  int64_t shape[] = {1000};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  DLTensor A = {a, cpu, 1, f32, shape, NULL, 0}, B = {b, cpu, 1, f32, shape, NULL, 0};
  void *args[] = {&A, &B};
  for (int k = 0; k < 50; k++) {
    for (int i = 0; i < n; i++) a[i] = (float)(i + k), b[i] = -1;
    if (f(args, 2) != 0) ++*(int *)wrong;
    for (int i = 0; i < n; i++) *(int *)wrong += b[i] != a[i] + 1;
  }
  return NULL;
}

int main(void) {
  int wrong = 0, more[3] = {0}, status = 1;
  pthread_t team[3];
  printf("%d", threads());
  run(&wrong);
  printf(" %d", threads());
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    run(&wrong);
    _exit(wrong != 0 || threads() != 1);
  }
  waitpid(child, &status, 0);
  for (int k = 0; k < 3; k++) pthread_create(&team[k], NULL, run, &more[k]);
  for (int k = 0; k < 3; k++) pthread_join(team[k], NULL);
  run(&wrong);
  printf(" %d %d %d\n", status, wrong, more[0] + more[1] + more[2]);
  return 0;
}
"""


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ending", ["so", "o"])
def test_a_parallel_kernel_brings_its_threads(tmp_path, workers, ending):
    parallel().export_library(tmp_path / f"k.{ending}")
    program = compiled(tmp_path, C_PARALLEL, f"./k.{ending}")
    env = os.environ | {"WHET_NUM_THREADS": str(workers)}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout == f"1 {workers} 0 0 0\n"


def test_the_library_counts_threads_as_the_process_does(tmp_path):
    path = parallel().export_library(tmp_path / "k.so")
    program = compiled(tmp_path, C_PARALLEL, "./k.so")
    env = {k: v for k, v in os.environ.items() if k != "WHET_NUM_THREADS"}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    count = "import whet; print(whet.runtime.num_threads())"
    told = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, env=env)
    assert done.stdout.split()[1] == told.stdout.strip()
    code = f"import whet; whet.runtime.load_module({path!r})"
    wrong = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env | {"WHET_NUM_THREADS": "x"},
    )
    assert "whole number" in wrong.stderr


def test_objects_of_two_modules_in_one_program(built, tmp_path):
    built.export_library(tmp_path / "one.o")
    parallel().export_library(tmp_path / "two.o")
    text = C_PARALLEL.replace("int main(void) {", "WHET_KERNEL(vadd);\n\nint main(void) {").replace(
        'printf("%d", threads());', 'printf("%d", threads() + (vadd(NULL, 0) == 0));'
    )
    program = compiled(tmp_path, text, "one.o", "two.o")
    env = os.environ | {"WHET_NUM_THREADS": "2"}
    done = subprocess.run([program], capture_output=True, text=True, env=env, timeout=300)
    assert done.stdout == "1 2 0 0 0\n"
