/* Calls kernels of exported libraries with arguments from stdin, and writes to stdout what they
 * hold afterwards. Until stdin ends: the library, the kernel, the arguments; all sizes and numbers
 * are int64.
 *
 * An array ends where memory ends, so that it begins anywhere and nothing can be read behind it;
 * one that the kernel does not write is read-only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <whet/runtime.h>

static void get(void *into, size_t size) {
  if (size != 0 && fread(into, 1, size, stdin) != size) exit(90);
}

static int64_t number(void) {
  int64_t n;
  get(&n, sizeof n);
  return n;
}

static void *space(size_t size) {
  void *made = calloc(1, size + 8);
  if (made == NULL) exit(91);
  return made;
}

static char *text(void) {
  int64_t size = number();
  char *made = space((size_t)size);
  get(made, (size_t)size);
  return made;
}

typedef struct {
  DLTensor tensor;
  char *begin, *data;
  size_t bytes, mapped;
} Array;

static void *array(Array *a) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  DLTensor *t = &a->tensor;
  int64_t written = number(), offset;
  t->device.device_type = kDLCPU;
  t->dtype.code = (uint8_t)number();
  t->dtype.bits = (uint8_t)number();
  t->dtype.lanes = (uint16_t)number();
  t->ndim = (int32_t)number();
  t->shape = space(sizeof(int64_t) * (size_t)t->ndim);
  t->strides = space(sizeof(int64_t) * (size_t)t->ndim);
  get(t->shape, sizeof(int64_t) * (size_t)t->ndim);
  get(t->strides, sizeof(int64_t) * (size_t)t->ndim);
  offset = number();
  a->bytes = (size_t)number();
  a->mapped = (a->bytes + page - 1) / page * page + page;
  a->begin = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (a->begin == MAP_FAILED) exit(91);
  a->data = a->begin + a->mapped - page - a->bytes;
  get(a->data, a->bytes);
  t->data = a->data + offset;
  mprotect(a->begin + a->mapped - page, page, PROT_NONE);
  if (!written) mprotect(a->begin, a->mapped - page, PROT_READ);
  return t;
}

static void call(WhetKernel kernel) {
  int64_t k, count = number();
  void **args = space(sizeof(void *) * (size_t)count);
  Array *arrays = space(sizeof(Array) * (size_t)count);
  for (k = 0; k < count; k++) {
    if (number()) {
      args[k] = array(&arrays[k]);
    } else {
      args[k] = space(8);
      get(args[k], 8);
    }
  }
  int64_t code = kernel(args, (int32_t)count);
  char about[200] = {0};
  whet_describe((int32_t)code, about, sizeof about);
  fwrite(&code, sizeof code, 1, stdout);
  fwrite(about, sizeof about, 1, stdout);
  for (k = 0; k < count; k++) {
    if (arrays[k].begin == NULL) {
      free(args[k]);
      continue;
    }
    fwrite(arrays[k].data, 1, arrays[k].bytes, stdout);
    munmap(arrays[k].begin, arrays[k].mapped);
    free(arrays[k].tensor.shape);
    free(arrays[k].tensor.strides);
  }
  fflush(stdout);
  free(args);
  free(arrays);
}

int main(void) {
  int64_t size;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    char *path = space((size_t)size), *name;
    get(path, (size_t)size);
    name = text();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    WhetKernel kernel = NULL;
    if (library != NULL) *(void **)&kernel = dlsym(library, name);
    if (kernel == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 92;
    }
    call(kernel);
    free(path);
    free(name);
  }
  return 0;
}
