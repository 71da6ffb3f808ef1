/* Opens a package and calls its kernels: package_main FILE numbers | kernel NAME | again | null.
 * Or, with `each` and paths on stdin, opens each of these. */
#include <math.h>
#include <whet/package.h>

enum { M = 24, K = 40, N = 56 };

static int fail(const char *text) {
  printf("%s\n", text);
  return 1;
}

static int numbers(const WhetPackage *package) {
  static float a[M * K], b[K * N], c[M * N];
  int64_t sa[2] = {M, K}, sb[2] = {K, N}, sc[2] = {M, N};
  DLTensor x = {a, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sa, NULL, 0};
  DLTensor y = {b, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sb, NULL, 0};
  DLTensor z = {c, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sc, NULL, 0};
  void *args[3];
  char text[WHET_PACKAGE_TEXT];
  WhetKernel product, ahead;
  int i, j, k;
  int32_t code;
  args[0] = &x, args[1] = &y, args[2] = &z;
  for (i = 0; i < M * K; i++) a[i] = (float)(i % 7) - 3;
  for (i = 0; i < K * N; i++) b[i] = (float)(i % 5) - 2;
  if (whet_package_kernel(package, "product", &product, text, sizeof text)) return fail(text);
  if ((code = product(args, 3)) != WHET_OK) return fail(whet_describe(code, text, sizeof text));
  for (i = 0; i < M; i++)
    for (j = 0; j < N; j++) {
      double sum = 0;
      for (k = 0; k < K; k++) sum += (double)a[i * K + k] * (double)b[k * N + j];
      if (fabs(sum - (double)c[i * N + j]) > 1e-3) return fail("a number is wrong");
    }
  if (whet_package_kernel(package, "dense_ahead", &ahead, text, sizeof text)) return fail(text);
  if (ahead(NULL, 0) == WHET_OK) return fail("no arguments are enough");
  printf("right at %s\n", whet_package_level(package, "product"));
  sc[1] = N - 1;
  code = product(args, 3);
  printf("%s\n", whet_describe(code, text, sizeof text));
  code = product(args, 2);
  printf("%s\n", whet_describe(code, text, sizeof text));
  return 0;
}

static int each(void) {
  static char line[4096];
  char text[WHET_PACKAGE_TEXT];
  while (fgets(line, sizeof line, stdin) != NULL) {
    WhetPackage *package;
    int32_t code;
    line[strcspn(line, "\n")] = 0;
    code = whet_package_open(line, &package, text, sizeof text);
    if ((code == WHET_PACKAGE_OK) != (package != NULL)) return fail("a package without an error");
    printf("%d %s\n", (int)code, code == WHET_PACKAGE_OK ? "ok" : text);
    whet_package_close(package);
  }
  return 0;
}

int main(int argc, char **argv) {
  char text[WHET_PACKAGE_TEXT], little[8];
  const char *what = argc > 2 ? argv[2] : "each";
  WhetPackage *package;
  WhetKernel kernel;
  size_t k;
  int32_t code;
  if (argc < 2) return 2;
  if (strcmp(what, "each") == 0) return each();
  if (strcmp(what, "null") == 0) {
    printf("%d", (int)whet_package_open(NULL, &package, text, sizeof text));
    printf(" %d", (int)whet_package_open(argv[1], NULL, NULL, 0));
    printf(" %d", (int)whet_package_kernel(NULL, "product", &kernel, text, sizeof text));
    printf(" %d", (int)whet_package_open("nowhere", &package, little, sizeof little));
    whet_package_close(NULL);
    printf(" %s %d\n", little, whet_package_name(NULL, 0) == NULL);
    return 0;
  }
  if (whet_package_open(argv[1], &package, text, sizeof text)) return fail(text);
  if (strcmp(what, "kernel") == 0) {
    code = whet_package_kernel(package, argv[3], &kernel, text, sizeof text);
    printf("%d %d %s\n", (int)code, kernel != NULL, code == WHET_PACKAGE_OK ? "ok" : text);
  } else if (strcmp(what, "again") == 0) {
    for (k = 0; k < 300; k++) { /* files in memory take numbers that others had */
      WhetPackage *other;
      if (whet_package_open(argv[3 + k % 2], &other, text, sizeof text)) return fail(text);
      if (whet_package_kernel(other, "product", &kernel, text, sizeof text)) return fail(text);
      printf("%d", kernel(NULL, 0) == WHET_OK);
      whet_package_close(other);
    }
    printf("\n");
  } else {
    for (k = 0; k < whet_package_count(package); k++)
      printf("%s ", whet_package_name(package, k));
    if (numbers(package)) return 1;
  }
  whet_package_close(package);
  return 0;
}
