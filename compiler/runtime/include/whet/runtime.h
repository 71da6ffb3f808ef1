/* whet/runtime.h: calling kernels of an exported library from C, with no Python.
 *
 * A library that Module.export_library() wrote holds, for a kernel named `f`,
 *
 *     int32_t f(void **args, int32_t num_args);
 *
 * args[i] points to a DLTensor, or to the value of a number (a bool takes one byte). Everything is
 * checked: the number of arguments, and of each array its device, rank, dtype, shape, strides and
 * alignment. The result is 0, or says what is wrong: see whet_describe().
 *
 *     WHET_KERNEL(f);
 *     ...
 *     void *args[] = {&a, &b, &c};
 *     int32_t code = f(args, 3);
 *
 * An array that the kernel writes must not overlap another argument. A kernel may be called from
 * several threads at once. Parallel loops use the library's own threads, WHET_NUM_THREADS of them
 * or one a physical core; they start with the first parallel loop, and a forked child has none.
 *
 * License: Apache-2.0.
 */
#ifndef WHET_RUNTIME_H_
#define WHET_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack's structs, unless <dlpack/dlpack.h> was included before this file. */
#ifndef DLPACK_DLPACK_H_
#ifndef WHET_DLPACK_STRUCTS_
#define WHET_DLPACK_STRUCTS_

enum { kDLCPU = 1 };
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

typedef struct {
  int32_t device_type; /* kDLCPU */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code;   /* kDLFloat, ... */
  uint8_t bits;   /* of an element */
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} DLTensor;

#endif
#endif

/* A kernel's checked entry: its symbol is the kernel's name, or name__entry where C's library, or
 * what the kernel calls, has a function of that name. */
typedef int32_t (*WhetKernel)(void **args, int32_t num_args);
#ifdef __cplusplus
#define WHET_KERNEL(name) extern "C" int32_t name(void **args, int32_t num_args)
#else
#define WHET_KERNEL(name) int32_t name(void **args, int32_t num_args)
#endif

/* Results of an entry: 0, or one of these, or a failed check of an argument. */
enum {
  WHET_OK = 0,
  WHET_NO_MEMORY = 1,     /* for an intermediate buffer */
  WHET_PACKED_RAISED = 2, /* a packed function failed, or nothing calls them: see below */
  WHET_NO_BUCKET = 3,     /* of a package's model: it is for other sizes of its inputs */
  WHET_FIRST_ASSERT = 16  /* 16 + k: assertion k of the kernel does not hold */
};

/* Checks of arguments. */
enum {
  WHET_CHECK_COUNT = 1, /* the number of arguments */
  WHET_CHECK_NULL = 2,
  WHET_CHECK_DEVICE = 3,
  WHET_CHECK_NDIM = 4,
  WHET_CHECK_DTYPE = 5,
  WHET_CHECK_SHAPE = 6,
  WHET_CHECK_STRIDES = 7,
  WHET_CHECK_DATA = 8, /* elements, but no data */
  WHET_CHECK_ALIGNMENT = 9,
  WHET_CHECK_SAME = 10 /* not the array of another argument that is the same tensor */
};

#define WHET_CODE_CHECK(code) ((int32_t)(code) >> 24)        /* WHET_CHECK_..., or 0 */
#define WHET_CODE_ARG(code) (((int32_t)(code) >> 8) & 0xFFFF) /* which argument */
#define WHET_CODE_DIM(code) ((int32_t)(code) & 0xFF)          /* which of its dimensions */

/* Write what a result means into `text`, of `size` bytes; returns `text`. */
static inline char *whet_describe(int32_t code, char *text, size_t size) {
  static const char *const checks[] = {
      "",        "the number of arguments is wrong",
      "null",    "not on the CPU",
      "ndim",    "dtype",
      "shape",   "strides",
      "no data", "alignment",
      "not the array of another argument that is the same tensor"};
  int32_t check = WHET_CODE_CHECK(code);
  if (code == WHET_OK) {
    snprintf(text, size, "ok");
  } else if (code == WHET_NO_MEMORY) {
    snprintf(text, size, "no memory for an intermediate buffer");
  } else if (code == WHET_PACKED_RAISED) {
    snprintf(text, size, "a packed function failed, or whet_set_packed_caller was not called");
  } else if (code == WHET_NO_BUCKET) {
    snprintf(text, size, "no bucket of the model has the sizes of these inputs");
  } else if (check == WHET_CHECK_COUNT) {
    snprintf(text, size, "%s", checks[check]);
  } else if (check == WHET_CHECK_SHAPE || check == WHET_CHECK_STRIDES) {
    snprintf(text, size, "argument %d: %s[%d] is not what the kernel wants",
             (int)WHET_CODE_ARG(code), checks[check], (int)WHET_CODE_DIM(code));
  } else if (check > 0 && check <= WHET_CHECK_SAME) {
    snprintf(text, size, "argument %d: %s", (int)WHET_CODE_ARG(code), checks[check]);
  } else if (code >= WHET_FIRST_ASSERT) {
    snprintf(text, size, "assertion %d of the kernel does not hold",
             (int)(code - WHET_FIRST_ASSERT));
  } else {
    snprintf(text, size, "unknown result %d", (int)code);
  }
  return text;
}

/* Packed functions: what a kernel calls by name (te.extern with tir.call_packed).
 *
 * A kernel that calls some needs a caller, given once for the library. It gets the function's name
 * and its arguments, each with the code of its type; *result_code says what the kernel can use
 * (WHET_INT, WHET_FLOAT, WHET_HANDLE, or WHET_NOTHING: the result is ignored) and is set to
 * WHET_NOTHING where there is none. It returns 0; anything else ends the kernel with
 * WHET_PACKED_RAISED. Arrays live during the call.
 */
typedef union {
  int64_t v_int;   /* WHET_INT: integers of any width, and booleans */
  double v_float;  /* WHET_FLOAT */
  void *v_handle;  /* WHET_HANDLE; WHET_ARRAY: a DLTensor *; WHET_TEXT: a const char * */
} WhetValue;

enum {
  WHET_INT = 0,
  WHET_FLOAT = 2,
  WHET_HANDLE = 3,
  WHET_NOTHING = 4,
  WHET_ARRAY = 7,
  WHET_TEXT = 11
};

typedef int32_t (*WhetPackedCaller)(const char *name, const WhetValue *args, const int32_t *codes,
                                    int32_t num_args, WhetValue *result, int32_t *result_code);
void whet_set_packed_caller(WhetPackedCaller caller);

/* What the library holds, as JSON: signatures and target. */
extern const char whet_metadata[];

#ifdef __cplusplus
}
#endif

#endif /* WHET_RUNTIME_H_ */
