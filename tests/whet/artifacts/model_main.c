/* Calls a package's model with two threads at once: model_main FILE NAME IN OUT. IN holds inputs of
 * 2 x 3 x 8 x 8 float32, OUT gets an output of 2 x 5 for each. */
#include <pthread.h>
#include <whet/package.h>

enum { IN = 2 * 3 * 8 * 8, OUT = 2 * 5, MANY = 64, THREADS = 2 };

static float in[MANY][IN], out[MANY][OUT];
static WhetKernel model;
static int32_t failed;

static void *run(void *which) {
  int64_t sx[4] = {2, 3, 8, 8}, sy[2] = {2, 5};
  int k;
  for (k = *(int *)which; k < MANY; k += THREADS) {
    DLTensor x = {NULL, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, NULL, NULL, 0};
    DLTensor y = {NULL, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, NULL, NULL, 0};
    void *args[2];
    int32_t code;
    x.data = in[k], x.shape = sx, y.data = out[k], y.shape = sy;
    args[0] = &x, args[1] = &y;
    if ((code = model(args, 2)) != WHET_OK) failed = code;
  }
  return NULL;
}

int main(int count, char **words) {
  char text[WHET_PACKAGE_TEXT];
  WhetPackage *package;
  pthread_t threads[THREADS];
  int numbers[THREADS], k;
  FILE *file;
  if (count != 5 || (file = fopen(words[3], "rb")) == NULL) return 2;
  if (fread(in, sizeof in, 1, file) != 1) return 2;
  fclose(file);
  if (whet_package_open(words[1], &package, text, sizeof text) != WHET_PACKAGE_OK ||
      whet_package_kernel(package, words[2], &model, text, sizeof text) != WHET_PACKAGE_OK) {
    puts(text);
    return 1;
  }
  for (k = 0; k < THREADS; k++) {
    numbers[k] = k;
    if (pthread_create(&threads[k], NULL, run, &numbers[k]) != 0) return 2;
  }
  for (k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
  puts(whet_describe(failed, text, sizeof text));
  puts(whet_describe(model(NULL, 4), text, sizeof text));
  printf("%d %s\n", (int)whet_package_count(package), whet_package_name(package, 0));
  if ((file = fopen(words[4], "wb")) == NULL) return 2;
  if (fwrite(out, sizeof out, 1, file) != 1) return 2;
  fclose(file);
  whet_package_close(package);
  return 0;
}
