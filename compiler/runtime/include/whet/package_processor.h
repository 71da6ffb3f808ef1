/* whet/package_processor.h: the features of this CPU under LLVM's names; a part of
 * <whet/package.h>.
 *
 * License: Apache-2.0.
 */
#ifndef WHET_PACKAGE_PROCESSOR_H_
#define WHET_PACKAGE_PROCESSOR_H_

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__x86_64__)
#define WHET_PKG_ARCH_ "x86_64"
#define WHET_PKG_MACHINE_ EM_X86_64

typedef struct {
  const char *name;
  uint32_t leaf, part, reg, bit; /* of cpuid: eax 0, ebx 1, ecx 2, edx 3 */
  uint32_t state;                /* registers that the system saves: bits of xcr0 */
  int level;                     /* of x86-64; 5: of none */
} WhetPkgFeature_;

static inline int whet_pkg_has_(const char *name, int level) {
  static const WhetPkgFeature_ table[] = {
      {"sse3", 1, 0, 2, 0, 0, 2},
      {"ssse3", 1, 0, 2, 9, 0, 2},
      {"cx16", 1, 0, 2, 13, 0, 2},
      {"sse4.1", 1, 0, 2, 19, 0, 2},
      {"sse4.2", 1, 0, 2, 20, 0, 2},
      {"popcnt", 1, 0, 2, 23, 0, 2},
      {"sahf", 0x80000001, 0, 2, 0, 0, 2},
      {"fma", 1, 0, 2, 12, 6, 3},
      {"movbe", 1, 0, 2, 22, 0, 3},
      {"avx", 1, 0, 2, 28, 6, 3},
      {"f16c", 1, 0, 2, 29, 6, 3},
      {"bmi", 7, 0, 1, 3, 0, 3},
      {"avx2", 7, 0, 1, 5, 6, 3},
      {"bmi2", 7, 0, 1, 8, 0, 3},
      {"lzcnt", 0x80000001, 0, 2, 5, 0, 3},
      {"avx512f", 7, 0, 1, 16, 0xe6, 4},
      {"avx512dq", 7, 0, 1, 17, 0xe6, 4},
      {"avx512cd", 7, 0, 1, 28, 0xe6, 4},
      {"avx512bw", 7, 0, 1, 30, 0xe6, 4},
      {"avx512vl", 7, 0, 1, 31, 0xe6, 4},
      {"pclmul", 1, 0, 2, 1, 0, 5},
      {"aes", 1, 0, 2, 25, 0, 5},
      {"adx", 7, 0, 1, 19, 0, 5},
      {"avx512ifma", 7, 0, 1, 21, 0xe6, 5},
      {"sha", 7, 0, 1, 29, 0, 5},
      {"avx512vbmi", 7, 0, 2, 1, 0xe6, 5},
      {"avx512vbmi2", 7, 0, 2, 6, 0xe6, 5},
      {"gfni", 7, 0, 2, 8, 0, 5},
      {"vaes", 7, 0, 2, 9, 6, 5},
      {"vpclmulqdq", 7, 0, 2, 10, 6, 5},
      {"avx512vnni", 7, 0, 2, 11, 0xe6, 5},
      {"avx512bitalg", 7, 0, 2, 12, 0xe6, 5},
      {"avx512vpopcntdq", 7, 0, 2, 14, 0xe6, 5},
      {"amx-bf16", 7, 0, 3, 22, 0x60000, 5},
      {"avx512fp16", 7, 0, 3, 23, 0xe6, 5},
      {"amx-tile", 7, 0, 3, 24, 0x60000, 5},
      {"amx-int8", 7, 0, 3, 25, 0x60000, 5},
      {"avxvnni", 7, 1, 0, 4, 6, 5},
      {"avx512bf16", 7, 1, 0, 5, 0xe6, 5},
      {"amx-fp16", 7, 1, 0, 21, 0x60000, 5},
      {"avxifma", 7, 1, 0, 23, 6, 5},
      {"avxvnniint8", 7, 1, 3, 4, 6, 5},
      {"avxneconvert", 7, 1, 3, 5, 6, 5}};
  unsigned k, r[4] = {0, 0, 0, 0}, saved = 0, high;
  for (k = 0; k < sizeof table / sizeof *table; k++) {
    const WhetPkgFeature_ *f = &table[k];
    if (strcmp(name, f->name) != 0) continue;
    if (f->level > level) return 0;
    if (f->state != 0) {
      if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || !(r[2] >> 27 & 1)) return 0;
      __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
      if ((saved & f->state) != f->state) return 0;
    }
    if (f->part != 0 && (!__get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3]) || r[0] < f->part))
      return 0;
    return __get_cpuid_count(f->leaf, f->part, &r[0], &r[1], &r[2], &r[3]) && r[f->reg] >> f->bit & 1;
  }
  return 0;
}

/* The level that WHET_CPU names; 5: all that the CPU has; -1: none. */
static inline int whet_pkg_level_(void) {
  const char *level = getenv("WHET_CPU");
  if (level == NULL || *level == 0 || strcmp(level, "native") == 0) return 5;
  if (strcmp(level, "x86-64") == 0) return 1;
  if (strncmp(level, "x86-64-v", 8) == 0 && level[8] >= '2' && level[8] <= '4' && level[9] == 0)
    return level[8] - '0';
  return -1;
}
#elif defined(__aarch64__)
#define WHET_PKG_ARCH_ "aarch64"
#define WHET_PKG_MACHINE_ EM_AARCH64

static inline int whet_pkg_has_(const char *name, int level) {
  static const struct {
    const char *name;
    unsigned long which;
    int bit;
  } table[] = {{"aes", 16, 3},      {"sha2", 16, 6},      {"crc", 16, 7},      {"lse", 16, 8},
               {"fullfp16", 16, 10}, {"rdm", 16, 12},      {"sha3", 16, 17},    {"sm4", 16, 19},
               {"dotprod", 16, 20},  {"sve", 16, 22},      {"fp16fml", 16, 23}, {"sve2", 26, 1},
               {"i8mm", 26, 13},     {"bf16", 26, 14}};
  unsigned k;
  (void)level;
  for (k = 0; k < sizeof table / sizeof *table; k++)
    if (strcmp(name, table[k].name) == 0) return getauxval(table[k].which) >> table[k].bit & 1;
  return 0;
}

static inline int whet_pkg_level_(void) {
  const char *level = getenv("WHET_CPU");
  return level == NULL || *level == 0 || strcmp(level, "native") == 0 ? 5 : -1;
}
#else
#define WHET_PKG_ARCH_ ""
#define WHET_PKG_MACHINE_ EM_NONE

static inline int whet_pkg_has_(const char *name, int level) { return (void)name, (void)level, 0; }
static inline int whet_pkg_level_(void) { return 5; }
#endif

#ifdef __cplusplus
}
#endif

#endif /* WHET_PACKAGE_PROCESSOR_H_ */
