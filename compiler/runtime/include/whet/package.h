/* whet/package.h: calling kernels of a package from C or C++, with no Python and no compiler.
 *
 * `whet package kernels.py:tasks --log whet.db -o kernels.whet` writes a package: the kernels of a
 * project, each for several processors. This header, with those beside it, reads it:
 *
 *     char text[WHET_PACKAGE_TEXT];
 *     WhetPackage *package;
 *     WhetKernel dense;
 *     if (whet_package_open("kernels.whet", &package, text, sizeof text) != WHET_PACKAGE_OK ||
 *         whet_package_kernel(package, "dense", &dense, text, sizeof text) != WHET_PACKAGE_OK) {
 *       fprintf(stderr, "%s\n", text);
 *       return 1;
 *     }
 *     void *args[] = {&x, &w, &y};            as <whet/runtime.h> says
 *     int32_t code = dense(args, 3);          0, or what whet_package_describe() explains
 *     whet_package_close(package);
 *
 * A model that model.export("net.whet") wrote is opened the same way: whet_package_kernel() gives a
 * function of its inputs, then its outputs, which several threads may call at once. Of a model for
 * several sizes the extents of the inputs say which.
 *
 * Of each kernel the widest code is taken that this CPU runs; WHET_CPU=x86-64-v3 in the environment
 * makes it pass for a lesser one. A file that is damaged, cut off or no package ends in an error.
 * A package is native code, which runs as soon as it is opened: open only what you trust.
 *
 * For Linux on x86-64 and aarch64. Link with -ldl where the C library is older than glibc 2.34. All
 * functions may be called from several threads at once, whet_package_close() after all others.
 *
 * License: Apache-2.0.
 */
#ifndef WHET_PACKAGE_H_
#define WHET_PACKAGE_H_

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <whet/package_index.h>
#include <whet/runtime.h>

#ifdef __cplusplus
extern "C" {
#else
extern long syscall(long number, ...); /* not declared by a strict -std=c99 */
#endif

#ifdef O_CLOEXEC
#define WHET_PKG_CLOEXEC_ O_CLOEXEC
#else
#define WHET_PKG_CLOEXEC_ 0 /* not declared by a strict -std=c99 */
#endif

enum { WHET_PACKAGE_TEXT = 320 }; /* bytes of text that hold every message */

/* ---- private ---------------------------------------------------------------------------------- */

static inline int32_t whet_pkg_say_(int32_t code, const char *of, const char *why, char *text,
                                    size_t size) {
  if (text != NULL && size != 0) snprintf(text, size, "%.120s: %.180s", of, why);
  return code;
}

/* A file's bytes, mapped: a model's constants stay there. NULL: it can only be read. */
static inline unsigned char *whet_pkg_map_(const char *path, size_t *size) {
  struct stat about;
  void *data = MAP_FAILED;
  int file = open(path, O_RDONLY | WHET_PKG_CLOEXEC_);
  if (file < 0) return NULL;
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
    data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) return NULL;
  *size = (size_t)about.st_size;
  return (unsigned char *)data;
}

/* The whole file, or NULL; *code says why. */
static inline unsigned char *whet_pkg_read_(const char *path, size_t *size, int32_t *code) {
  FILE *file = fopen(path, "rb");
  unsigned char *data = NULL;
  size_t room = 0, got = 0;
  *code = WHET_PACKAGE_UNREADABLE;
  if (file == NULL) return NULL;
  for (;;) {
    size_t now;
    if (got == room) {
      unsigned char *more = NULL;
      room = room == 0 ? 1 << 16 : room * 2;
      if (room < ((size_t)1 << 40)) more = (unsigned char *)realloc(data, room);
      if (more == NULL) {
        *code = WHET_PACKAGE_NO_MEMORY;
        break;
      }
      data = more;
    }
    errno = 0;
    now = fread(data + got, 1, room - got, file);
    got += now;
    if (now == 0) {
      if (ferror(file)) break;
      fclose(file);
      *size = got;
      *code = WHET_PACKAGE_OK;
      return data;
    }
  }
  free(data);
  fclose(file);
  return NULL;
}

/* The head and the checksum of a file. */
static inline int32_t whet_pkg_check_(const unsigned char *data, size_t size, const char *path,
                                      WhetPkgJson_ *index, char *text, size_t room) {
  static const char magic[] = "\x89WHETPKG";
  unsigned char digest[WHET_PKG_DIGEST_];
  uint32_t version = 0;
  uint64_t length = 0;
  const char *after;
  int i;
  if (memcmp(data, magic, size < 8 ? size : 8) != 0)
    return whet_pkg_say_(WHET_PACKAGE_NONE, path, "it is no package of Whet", text, room);
  if (size < WHET_PKG_HEAD_ + WHET_PKG_DIGEST_)
    return whet_pkg_say_(WHET_PACKAGE_DAMAGED, path, "it is damaged: it was cut off", text, room);
  whet_pkg_sha256_(data, size - WHET_PKG_DIGEST_, digest);
  if (memcmp(digest, data + size - WHET_PKG_DIGEST_, WHET_PKG_DIGEST_) != 0)
    return whet_pkg_say_(WHET_PACKAGE_DAMAGED, path,
                         "it is damaged: its bytes are not its checksum's; copy it again", text,
                         room);
  for (i = 3; i >= 0; i--) version = version << 8 | data[8 + i];
  if (version != 1)
    return whet_pkg_say_(WHET_PACKAGE_VERSION, path,
                         "its format is of another version; take package.h of the Whet that wrote "
                         "it, or write it again with this one's",
                         text, room);
  for (i = 7; i >= 0; i--) length = length << 8 | data[16 + i];
  if (length > size - WHET_PKG_HEAD_ - WHET_PKG_DIGEST_)
    return whet_pkg_say_(WHET_PACKAGE_DAMAGED, path, "its index is longer than the file", text,
                         room);
  index->at = (const char *)data + WHET_PKG_HEAD_;
  index->end = index->at + length;
  after = whet_pkg_skip_(index->at, index->end, 0);
  if (after == NULL || whet_pkg_space_(after, index->end) != index->end || *index->at != '{')
    return whet_pkg_say_(WHET_PACKAGE_DAMAGED, path, "its index cannot be read", text, room);
  return WHET_PACKAGE_OK;
}

/* Whether the parts that an ELF library's headers name are in it: the system takes it at its word. */
static inline int whet_pkg_is_whole_(const unsigned char *data, uint64_t size) {
  Elf64_Ehdr head;
  Elf64_Phdr part;
  int k;
  if (size < sizeof head) return 0;
  memcpy(&head, data, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN ||
      head.e_machine != WHET_PKG_MACHINE_ || head.e_phentsize != sizeof part ||
      head.e_phoff > size || (uint64_t)head.e_phnum * sizeof part > size - head.e_phoff)
    return 0;
  for (k = 0; k < head.e_phnum; k++) {
    memcpy(&part, data + head.e_phoff + (size_t)k * sizeof part, sizeof part);
    if (part.p_type != PT_LOAD && part.p_type != PT_DYNAMIC) continue;
    if (part.p_offset > size || part.p_filesz > size - part.p_offset ||
        part.p_memsz < part.p_filesz)
      return 0;
  }
  return 1;
}

/* Let the system load a library from memory: NULL, or what is wrong. */
static inline const char *whet_pkg_load_(const unsigned char *data, WhetPkgLibrary_ *one) {
  char path[256];
  unsigned char digest[WHET_PKG_DIGEST_];
  size_t done = 0, length;
  const char *why;
  int file, k;
  if (!whet_pkg_is_whole_(data, one->size)) return "a library in it is none for this machine";
#ifdef SYS_memfd_create
  file = (int)syscall(SYS_memfd_create, "whet-package", 1u /* closed by exec */);
#else
  file = -1;
#endif
  if (file < 0) return "the system has no files in memory (memfd_create)";
  while (done < one->size) {
    ssize_t now = write(file, data + done, (size_t)one->size - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      close(file);
      return "there is no memory for its code";
    }
    done += (size_t)now;
  }
  /* The system's loader knows libraries by their paths, and a file's number is used again: the way
   * to it spells 64 bits of the digest. */
  whet_pkg_sha256_(data, (size_t)one->size, digest);
  length = (size_t)snprintf(path, sizeof path, "/proc/self/fd");
  for (k = 0; k < 64; k++) {
    path[length++] = '/';
    if (digest[k / 8] >> k % 8 & 1) path[length++] = '.', path[length++] = '/';
  }
  snprintf(path + length, sizeof path - length, "%d", file);
  one->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  why = one->handle == NULL ? dlerror() : NULL;
  close(file);
  if (one->handle == NULL) return why != NULL ? why : "dlopen() refuses its code";
  return NULL;
}

/* Give a model its constants: NULL, or what is wrong; *kept: they must stay where they are. */
static inline const char *whet_pkg_attach_(const WhetPackage *package, const unsigned char *data,
                                           const WhetPkgKernel_ *one, int *kept) {
  int32_t (*attach)(const void *, uint64_t);
  void *found;
  int32_t code;
  if (one->library < 0 || one->size == 0) return NULL;
  found = dlsym(package->libraries[one->library].handle, "whet_model_attach");
  if (found == NULL) return "its library holds no model";
  memcpy(&attach, &found, sizeof found);
  code = attach(data + one->offset, one->size);
  if (code < 0) return "a model's constants are none of its code's";
  if (code > 0) *kept = 1;
  return NULL;
}

/* ---- public ----------------------------------------------------------------------------------- */

/* Close a package, or NULL. Its kernels must not be called any more. */
static inline void whet_package_close(WhetPackage *package) {
  size_t k;
  if (package == NULL) return;
  for (k = 0; k < package->num_libraries; k++)
    if (package->libraries[k].handle != NULL) dlclose(package->libraries[k].handle);
  free(package->libraries);
  free(package->kernels);
  free(package);
}

/* Open a package. Returns 0 and sets *package, or returns WHET_PACKAGE_..., sets it to NULL and
 * writes what is wrong into `text`, of `size` bytes. `text` may be NULL. */
static inline int32_t whet_package_open(const char *path, WhetPackage **package, char *text,
                                        size_t size) {
  WhetPkgJson_ index;
  unsigned char *data;
  const char *why;
  size_t length = 0, k;
  int32_t code = WHET_PACKAGE_OK;
  int level = whet_pkg_level_(), mapped, kept = 0;
  if (package != NULL) *package = NULL;
  if (path == NULL || package == NULL)
    return whet_pkg_say_(WHET_PACKAGE_ARGUMENT, "whet_package_open", "a pointer is NULL", text,
                         size);
  if (level < 0)
    return whet_pkg_say_(WHET_PACKAGE_ARGUMENT, path,
                         "WHET_CPU is no level: native, x86-64-v2, x86-64-v3, x86-64-v4", text,
                         size);
  data = whet_pkg_map_(path, &length);
  mapped = data != NULL;
  if (!mapped) data = whet_pkg_read_(path, &length, &code);
  if (data == NULL)
    return whet_pkg_say_(code, path,
                         code == WHET_PACKAGE_NO_MEMORY ? "there is no memory for it"
                         : errno != 0                   ? strerror(errno)
                                                        : "it cannot be read",
                         text, size);
  code = whet_pkg_check_(data, length, path, &index, text, size);
  if (code == WHET_PACKAGE_OK) {
    WhetPackage *made = (WhetPackage *)calloc(1, sizeof *made);
    code = WHET_PACKAGE_DAMAGED;
    why = "there is no memory for it";
    if (made == NULL) {
      code = WHET_PACKAGE_NO_MEMORY;
    } else {
      why = whet_pkg_index_(index, level, length, made, &code);
      for (k = 0; why == NULL && k < made->num_libraries; k++) {
        if (!made->libraries[k].used) continue;
        code = WHET_PACKAGE_SYSTEM;
        why = whet_pkg_load_(data + made->libraries[k].offset, &made->libraries[k]);
      }
      for (k = 0; why == NULL && k < made->num_kernels; k++) {
        if (made->kernels[k].size != 0 && !mapped) {
          why = "a package of a model must be a file, not a pipe";
          break;
        }
        why = whet_pkg_attach_(made, data, &made->kernels[k], &kept);
      }
    }
    if (why != NULL) {
      code = whet_pkg_say_(code, path, why, text, size);
      whet_package_close(made);
    } else {
      code = WHET_PACKAGE_OK;
      *package = made;
    }
  }
  /* the library of a model stays in the process, and so do its constants */
  if (!mapped) free(data);
  if (mapped && !kept) munmap(data, length);
  return code;
}

/* How many kernels and models a package has. */
static inline size_t whet_package_count(const WhetPackage *package) {
  return package == NULL ? 0 : package->num_kernels;
}

/* The name of a kernel, from 0 on; NULL beyond the last. */
static inline const char *whet_package_name(const WhetPackage *package, size_t number) {
  return number < whet_package_count(package) ? package->kernels[number].name : NULL;
}

static inline const WhetPkgKernel_ *whet_pkg_find_(const WhetPackage *package, const char *name) {
  size_t k;
  for (k = 0; name != NULL && k < whet_package_count(package); k++)
    if (strcmp(package->kernels[k].name, name) == 0) return &package->kernels[k];
  return NULL;
}

/* The level of the code that was chosen for a kernel, "x86-64-v3"; NULL where none runs here. */
static inline const char *whet_package_level(const WhetPackage *package, const char *name) {
  const WhetPkgKernel_ *one = whet_pkg_find_(package, name);
  return one == NULL || one->library < 0 ? NULL : package->libraries[one->library].level;
}

/* A kernel, or a model, which takes its inputs and then its outputs; or with the suffix "_ahead"
 * what packs its weights: returns 0 and sets *kernel, or returns WHET_PACKAGE_..., sets it to NULL
 * and writes what is wrong into `text`. */
static inline int32_t whet_package_kernel(const WhetPackage *package, const char *name,
                                          WhetKernel *kernel, char *text, size_t size) {
  const WhetPkgKernel_ *one = whet_pkg_find_(package, name);
  char symbol[WHET_PKG_NAME_ + 16], why[2 * WHET_PKG_NAME_];
  void *handle, *found;
  size_t length = name == NULL ? 0 : strlen(name);
  if (kernel != NULL) *kernel = NULL;
  if (package == NULL || name == NULL || kernel == NULL)
    return whet_pkg_say_(WHET_PACKAGE_ARGUMENT, "whet_package_kernel", "a pointer is NULL", text,
                         size);
  if (one == NULL && length > 6 && length < WHET_PKG_NAME_ + 6 &&
      strcmp(name + length - 6, "_ahead") == 0) {
    snprintf(symbol, sizeof symbol, "%.*s", (int)(length - 6), name);
    one = whet_pkg_find_(package, symbol);
  }
  if (one == NULL)
    return whet_pkg_say_(WHET_PACKAGE_NO_KERNEL, name, "the package has no such kernel", text, size);
  if (one->library < 0) {
    snprintf(why, sizeof why, "none of its code runs on this CPU, for want of %s", one->why);
    return whet_pkg_say_(WHET_PACKAGE_PROCESSOR, name, why, text, size);
  }
  handle = package->libraries[one->library].handle;
  snprintf(symbol, sizeof symbol, "%.262s__entry", name);
  found = dlsym(handle, one->size != 0 ? "whet_model" : symbol);
  if (found == NULL) found = dlsym(handle, name);
  if (found == NULL)
    return whet_pkg_say_(WHET_PACKAGE_NO_KERNEL, name, "its library has no such function", text,
                         size);
  memcpy(kernel, &found, sizeof found);
  return WHET_PACKAGE_OK;
}

/* Write what a result of a kernel or a model means into `text`, as whet_describe() does, and of a
 * model with ranges of sizes which one it is for; returns `text`. */
static inline char *whet_package_describe(const WhetPackage *package, const char *name,
                                          int32_t code, char *text, size_t size) {
  const WhetPkgKernel_ *one = whet_pkg_find_(package, name);
  const char *(*words)(int32_t), *said = NULL;
  void *found = NULL;
  if (one != NULL && one->library >= 0 && one->size != 0)
    found = dlsym(package->libraries[one->library].handle, "whet_model_assert");
  if (found != NULL) memcpy(&words, &found, sizeof found), said = words(code);
  if (said == NULL) return whet_describe(code, text, size);
  snprintf(text, size, "the model is for other sizes: %s", said);
  return text;
}

/* Let the kernels of a package call packed functions: see <whet/runtime.h>. */
static inline void whet_package_set_packed_caller(const WhetPackage *package,
                                                  WhetPackedCaller caller) {
  size_t k;
  for (k = 0; package != NULL && k < package->num_libraries; k++) {
    void (*set)(WhetPackedCaller);
    void *found = NULL;
    if (package->libraries[k].handle != NULL)
      found = dlsym(package->libraries[k].handle, "whet_set_packed_caller");
    if (found == NULL) continue;
    memcpy(&set, &found, sizeof found);
    set(caller);
  }
}

#ifdef __cplusplus
}
#endif

#endif /* WHET_PACKAGE_H_ */
