/* whet/package_index.h: what a package tells of itself, checked; a part of <whet/package.h>.
 *
 * License: Apache-2.0.
 */
#ifndef WHET_PACKAGE_INDEX_H_
#define WHET_PACKAGE_INDEX_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <whet/package_processor.h>
#include <whet/package_text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct WhetPackage WhetPackage;

/* Results of the functions of <whet/package.h>. */
enum {
  WHET_PACKAGE_OK = 0,
  WHET_PACKAGE_UNREADABLE = 1, /* the file cannot be read */
  WHET_PACKAGE_NONE = 2,       /* it is no package */
  WHET_PACKAGE_DAMAGED = 3,    /* it is not as it was written */
  WHET_PACKAGE_VERSION = 4,    /* it is of another version */
  WHET_PACKAGE_NO_KERNEL = 5,  /* it has no kernel of that name */
  WHET_PACKAGE_PROCESSOR = 6,  /* no code of the kernel runs on this CPU */
  WHET_PACKAGE_SYSTEM = 7,     /* the system does not load its code */
  WHET_PACKAGE_NO_MEMORY = 8,
  WHET_PACKAGE_ARGUMENT = 9    /* a null pointer; WHET_CPU is no level */
};

enum {
  WHET_PKG_HEAD_ = 24,
  WHET_PKG_PAGE_ = 4096,
  WHET_PKG_LIBRARIES_ = 256,
  WHET_PKG_KERNELS_ = 4096,
  WHET_PKG_NAME_ = 257
};

typedef struct {
  char level[WHET_PKG_WORD_], needed[WHET_PKG_WORD_]; /* needed: a feature that is missing here */
  uint64_t offset, size;
  int runs, used;
  void *handle;
} WhetPkgLibrary_;

typedef struct {
  char name[WHET_PKG_NAME_];
  int32_t library; /* -1: none runs here */
  char why[WHET_PKG_WORD_];
  uint64_t offset, size; /* of a model: the place of its constants; size is 0 of a kernel */
} WhetPkgKernel_;

struct WhetPackage {
  size_t num_libraries, num_kernels;
  WhetPkgLibrary_ *libraries;
  WhetPkgKernel_ *kernels; /* and models */
};

/* One of the index's libraries, and whether it runs here; NULL, or what is wrong. */
static inline const char *whet_pkg_library_(WhetPkgJson_ data, int level, size_t size,
                                            WhetPkgLibrary_ *one) {
  char kind[WHET_PKG_WORD_], arch[WHET_PKG_WORD_], need[WHET_PKG_WORD_];
  WhetPkgJson_ needs, name;
  const char *at = NULL;
  if (!whet_pkg_field_(data, "kind", kind, sizeof kind) ||
      !whet_pkg_field_(data, "arch", arch, sizeof arch) ||
      !whet_pkg_field_(data, "level", one->level, sizeof one->level) ||
      !whet_pkg_count_(data, "offset", &one->offset) ||
      !whet_pkg_count_(data, "size", &one->size) || !whet_pkg_get_(data, "needs", &needs) ||
      !whet_pkg_is_list_(needs))
    return "a library in its index is damaged";
  if (one->offset == 0 || one->offset % WHET_PKG_PAGE_ != 0 || one->size == 0 ||
      one->offset > size - WHET_PKG_DIGEST_ ||
      one->size > size - WHET_PKG_DIGEST_ - one->offset)
    return "a library is not inside of the file";
  one->runs = 1;
  if (strcmp(kind, "cpu") != 0 || strcmp(arch, WHET_PKG_ARCH_) != 0) {
    one->runs = 0;
    memcpy(one->needed, arch, sizeof arch);
  }
  while (whet_pkg_next_(needs, &at, &name)) {
    if (!whet_pkg_word_(name, need, sizeof need)) return "a feature that a library needs is no word";
    if (one->runs && !whet_pkg_has_(need, level)) {
      one->runs = 0;
      memcpy(one->needed, need, sizeof need);
    }
  }
  return NULL;
}

/* The name of a kernel or a model: NULL, or what is wrong. A model may be there several times, for
 * one processor each: *same is the one before, or NULL; of kernels there is none. */
static inline const char *whet_pkg_name_(WhetPkgJson_ data, const WhetPackage *package,
                                         WhetPkgKernel_ *one, WhetPkgKernel_ **same) {
  size_t k;
  if (!whet_pkg_field_(data, "name", one->name, sizeof one->name))
    return "a kernel in its index is damaged";
  for (k = 0; one->name[k] != 0; k++)
    if (strchr(".+-", one->name[k]) != NULL || (k == 0 && one->name[k] <= '9'))
      return "a kernel's name is none";
  for (k = 0; k < package->num_kernels; k++) {
    if (strcmp(package->kernels[k].name, one->name) != 0) continue;
    if (same == NULL || package->kernels[k].size == 0) return "two kernels have one name";
    *same = &package->kernels[k];
  }
  return NULL;
}

/* Take a library for a kernel or a model, if it runs here. */
static inline void whet_pkg_take_(WhetPackage *package, uint64_t library, WhetPkgKernel_ *one) {
  WhetPkgLibrary_ *found = &package->libraries[library];
  if (found->runs && one->library < 0) {
    one->library = (int32_t)library;
    found->used = 1;
  }
  if (!found->runs) memcpy(one->why, found->needed, sizeof one->why);
}

/* One of the index's kernels: NULL, or what is wrong. */
static inline const char *whet_pkg_kernel_(WhetPkgJson_ data, WhetPackage *package,
                                           WhetPkgKernel_ *one) {
  WhetPkgJson_ variants, variant;
  const char *at = NULL, *why = whet_pkg_name_(data, package, one, NULL);
  uint64_t library;
  one->library = -1;
  if (why != NULL) return why;
  if (!whet_pkg_get_(data, "variants", &variants) || !whet_pkg_is_list_(variants))
    return "a kernel in its index is damaged";
  while (whet_pkg_next_(variants, &at, &variant)) {
    if (!whet_pkg_count_(variant, "library", &library) || library >= package->num_libraries)
      return "a kernel names a library that there is not";
    whet_pkg_take_(package, library, one);
  }
  return NULL;
}

/* Add one of the index's models, or another processor's code of it: NULL, or what is wrong. */
static inline const char *whet_pkg_model_(WhetPkgJson_ data, WhetPackage *package, size_t size,
                                          WhetPkgKernel_ *one) {
  WhetPkgKernel_ *same = NULL;
  const char *why = whet_pkg_name_(data, package, one, &same);
  WhetPkgJson_ place;
  uint64_t library;
  size_t k;
  one->library = -1;
  if (why != NULL) return why;
  if (!whet_pkg_count_(data, "library", &library) || library >= package->num_libraries ||
      !whet_pkg_get_(data, "constants", &place) ||
      !whet_pkg_count_(place, "offset", &one->offset) ||
      !whet_pkg_count_(place, "size", &one->size))
    return "a model in its index is damaged";
  if (one->offset == 0 || one->offset % WHET_PKG_PAGE_ != 0 || one->size == 0 ||
      one->offset > size - WHET_PKG_DIGEST_ ||
      one->size > size - WHET_PKG_DIGEST_ - one->offset)
    return "a model's constants are not inside of the file";
  for (k = 0; k < package->num_libraries; k++) {
    const WhetPkgLibrary_ *other = &package->libraries[k];
    if (one->offset < other->offset + other->size && other->offset < one->offset + one->size)
      return "a model's constants lie on a library";
  }
  if (same == NULL) {
    whet_pkg_take_(package, library, one);
    package->num_kernels++;
  } else if (same->library < 0) { /* the first that runs is taken, with its constants */
    same->offset = one->offset;
    same->size = one->size;
    whet_pkg_take_(package, library, same);
  }
  return NULL;
}

/* How many entries a list has, at most one more than `most`; -1 where it is none. */
static inline long whet_pkg_length_(WhetPkgJson_ index, const char *key, WhetPkgJson_ *list,
                                    long most) {
  WhetPkgJson_ entry;
  const char *at = NULL;
  long count = 0;
  if (!whet_pkg_get_(index, key, list) || !whet_pkg_is_list_(*list)) return -1;
  while (count <= most && whet_pkg_next_(*list, &at, &entry)) count++;
  return count;
}

/* What the index tells, checked, into the package: NULL, or what is wrong. */
static inline const char *whet_pkg_index_(WhetPkgJson_ index, int level, size_t size,
                                          WhetPackage *package, int32_t *code) {
  WhetPkgJson_ libraries, kernels, models, entry, number;
  const char *at = NULL, *why;
  size_t k;
  long n = whet_pkg_length_(index, "libraries", &libraries, WHET_PKG_LIBRARIES_);
  long m = whet_pkg_length_(index, "kernels", &kernels, WHET_PKG_KERNELS_);
  long more = whet_pkg_length_(index, "models", &models, WHET_PKG_KERNELS_);
  if (n < 0 || m < 0 || more < 0 || n > WHET_PKG_LIBRARIES_ || m > WHET_PKG_KERNELS_ ||
      more > WHET_PKG_KERNELS_)
    return "its lists of libraries, kernels and models are damaged";
  package->libraries = (WhetPkgLibrary_ *)calloc((size_t)n + 1, sizeof *package->libraries);
  package->kernels = (WhetPkgKernel_ *)calloc((size_t)(m + more) + 1,
                                              sizeof *package->kernels);
  if (package->libraries == NULL || package->kernels == NULL) {
    *code = WHET_PACKAGE_NO_MEMORY;
    return "there is no memory for its index";
  }
  while (whet_pkg_next_(libraries, &at, &entry)) {
    WhetPkgLibrary_ *one = &package->libraries[package->num_libraries];
    if ((why = whet_pkg_library_(entry, level, size, one)) != NULL) return why;
    for (k = 0; k < package->num_libraries; k++) {
      const WhetPkgLibrary_ *other = &package->libraries[k];
      if (one->offset < other->offset + other->size && other->offset < one->offset + one->size)
        return "two libraries lie on each other";
    }
    package->num_libraries++;
  }
  for (at = NULL; whet_pkg_next_(kernels, &at, &entry); package->num_kernels++)
    if ((why = whet_pkg_kernel_(entry, package, &package->kernels[package->num_kernels])) != NULL)
      return why;
  for (at = NULL; whet_pkg_next_(models, &at, &entry);) {
    WhetPkgKernel_ *one = &package->kernels[package->num_kernels];
    if (!whet_pkg_get_(entry, "library", &number)) continue; /* of a later version */
    if ((why = whet_pkg_model_(entry, package, size, one)) != NULL) return why;
  }
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* WHET_PACKAGE_INDEX_H_ */
