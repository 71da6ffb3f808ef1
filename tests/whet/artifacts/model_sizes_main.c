/* Calls a package's model of one input and one output of any sizes: model_sizes_main FILE NAME IN OUT
 * RANK D... RANK D..., the extents of its input and its output, of float32. Prints the result. */
#include <whet/package.h>

int main(int count, char **words) {
  char text[WHET_PACKAGE_TEXT];
  WhetPackage *package;
  WhetKernel model;
  DLTensor arrays[2];
  int64_t shapes[2][8], many[2];
  void *args[2];
  int32_t code;
  int at = 5, k, d;
  FILE *file;
  for (k = 0; k < 2; k++) {
    DLTensor one = {NULL, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    one.ndim = at < count ? atoi(words[at++]) : 0, one.shape = shapes[k], many[k] = 1;
    for (d = 0; d < one.ndim && at < count; d++) many[k] *= shapes[k][d] = atoll(words[at++]);
    one.data = calloc((size_t)many[k] + 1, 4);
    arrays[k] = one, args[k] = &arrays[k];
  }
  if ((file = fopen(words[3], "rb")) == NULL) return 2;
  if (fread(arrays[0].data, 4, (size_t)many[0], file) != (size_t)many[0]) return 2;
  fclose(file);
  if (whet_package_open(words[1], &package, text, sizeof text) != WHET_PACKAGE_OK ||
      whet_package_kernel(package, words[2], &model, text, sizeof text) != WHET_PACKAGE_OK) {
    puts(text);
    return 1;
  }
  code = model(args, 2);
  puts(whet_package_describe(package, words[2], code, text, sizeof text));
  if ((file = fopen(words[4], "wb")) == NULL) return 2;
  if (fwrite(arrays[1].data, 4, (size_t)many[1], file) != (size_t)many[1]) return 2;
  fclose(file);
  whet_package_close(package);
  free(arrays[0].data);
  free(arrays[1].data);
  return 0;
}
