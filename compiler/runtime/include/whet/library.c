/* What an exported library holds beside its kernels: the way to packed functions, and how many
 * threads its parallel loops have. export_library() puts the metadata behind it.
 *
 * Symbols are weak, so that several objects can be linked into one program.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <whet/runtime.h>

#define WHET_INSIDE __attribute__((weak, visibility("hidden")))

/* Data is shared by all libraries of a program, which is told about its functions once. */
__attribute__((weak)) WhetPackedCaller whet_packed_caller = NULL;

__attribute__((weak)) void whet_set_packed_caller(WhetPackedCaller caller) {
  whet_packed_caller = caller;
}

int32_t whet_call_packed(const char *name, const WhetValue *args, const int32_t *codes,
                         int32_t num_args, WhetValue *result, int32_t *result_code) WHET_INSIDE;

int32_t whet_call_packed(const char *name, const WhetValue *args, const int32_t *codes,
                         int32_t num_args, WhetValue *result, int32_t *result_code) {
  if (whet_packed_caller == NULL) return 1;
  return whet_packed_caller(name, args, codes, num_args, result, result_code);
}

#ifdef WHET_PARALLEL
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

int64_t whet_pool_threads WHET_INSIDE = 1;
/* A byte that is 1 here and 0 in a forked child. */
unsigned char *whet_pool_mark WHET_INSIDE = NULL;

static void whet_wipe_mark(void) { *whet_pool_mark = 0; }

/* Whether this CPU is the first of its core's siblings that the process may use. */
static int whet_leads_core(int cpu, const cpu_set_t *usable) {
  char path[96], list[256];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 1;
  char *at = fgets(list, sizeof list, file);
  fclose(file);
  while (at != NULL && *at >= '0' && *at <= '9') { /* "0,64" or "0-1" */
    long first = strtol(at, &at, 10), last = first;
    if (*at == '-') last = strtol(at + 1, &at, 10);
    for (long k = first; k <= last && k < cpu; k++)
      if (k < CPU_SETSIZE && CPU_ISSET((int)k, usable)) return 0;
    if (*at == ',') at++;
  }
  return 1;
}

static int64_t whet_count_threads(void) {
  const char *asked = getenv("WHET_NUM_THREADS");
  if (asked != NULL && atol(asked) >= 1) return atol(asked);
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return 1;
  int64_t cores = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &usable)) cores += whet_leads_core(cpu, &usable);
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (file != NULL) {
    double quota, period;
    if (fscanf(file, "%lf %lf", &quota, &period) == 2 && period > 0) {
      int64_t granted = (int64_t)(quota / period + 0.5);
      if (granted < cores) cores = granted;
    }
    fclose(file);
  }
  return cores < 1 ? 1 : cores;
}

__attribute__((constructor)) static void whet_prepare_pool(void) {
  if (whet_pool_mark != NULL) return;
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    static unsigned char never = 0; /* parallel loops run serially */
    whet_pool_mark = &never;
    return;
  }
  whet_pool_mark = page;
  /* Both: fork() alone calls handlers, and where a system is emulated (qemu, gVisor) the kernel may
   * say yes and wipe nothing. */
  (void)madvise(page, 4096, MADV_WIPEONFORK);
  pthread_atfork(NULL, NULL, whet_wipe_mark);
  whet_pool_threads = whet_count_threads();
  *whet_pool_mark = 1;
}
#endif

__attribute__((weak)) const char whet_metadata[] =
