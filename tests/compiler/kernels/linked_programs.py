"""C programs that are linked with exported libraries, and kernels to export."""

import subprocess

import whet
from whet import te
from whet.compiler import settings
from whet.compiler.runtime import include_dir


def compiled(tmp_path, text, *libraries, cc=None):
    """A C program linked with libraries, by this machine's compiler or another one."""
    (tmp_path / "main.c").write_text(text)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{include_dir()}"]
    compiler = (cc or settings.c_compiler()).split()
    command = [*compiler, *strict, "main.c", *libraries, "-o", "main"]
    done = subprocess.run(
        [*command, "-lm", "-pthread", f"-Wl,-rpath,{tmp_path}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return str(tmp_path / "main")


def parallel(n=1000, target="llvm"):
    """``B = A + 1`` with a parallel loop."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    return whet.build(s, [A, B], target, name="f")


def fills(target="llvm"):
    """Five numbers that a packed function of the caller's writes."""
    out = te.extern(
        (5,),
        [],
        lambda i, o: whet.tir.call_packed("c.fill", o[0], 1.5, "four"),
        name="out",
        dtype="float32",
    )
    return whet.build(te.create_schedule(out.op), [out], target, name="f")


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

C_PARALLEL = r"""
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <whet/runtime.h>

WHET_KERNEL(f);

static int others = 2; /* . and .., and threads of what runs this program */

static int threads(void) {
  int count = -others;
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
  others += threads() - 1;
  run(&wrong);
  printf("%d", threads());
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
