/* What a package's library of a model holds beside its kernels: the model as a function of its
 * inputs and outputs alone. Its constants lie in the package, which gives them once; each call that
 * runs at the same time as others has an arena of its own.
 *
 * export defines WHET_MODEL_ARGS, WHET_MODEL_INPUTS, WHET_MODEL_CONSTANTS, WHET_MODEL_DIGEST (that
 * of the constants: libraries of two models with equal code differ by it), WHET_MODEL_ARENA, the
 * bytes of the greatest arena, WHET_MODEL_FUNCTIONS, and for each of these, WHET_MODEL_CHOICES, its
 * entry, the bytes of its arena and the sizes of its inputs: ranks and extents; NULL: it checks
 * them itself. WHET_MODEL_ASSERTS has in words what a call asserts beyond that.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdlib.h>
#include <whet/runtime.h>

typedef struct {
  int32_t (*entry)(void **args, int32_t num_args);
  int64_t arena;
  const int64_t *sizes;
} WhetChoice;

WHET_MODEL_FUNCTIONS

typedef struct WhetArena {
  struct WhetArena *next; /* in an arena's own memory, while no call uses it */
} WhetArena;

const char whet_model_digest[] = WHET_MODEL_DIGEST;
static const WhetChoice whet_choices[] = {WHET_MODEL_CHOICES};
static const char *const whet_asserts[] = {WHET_MODEL_ASSERTS NULL};
static const void *whet_constants = NULL;
static WhetArena *whet_free = NULL;
static pthread_mutex_t whet_lock = PTHREAD_MUTEX_INITIALIZER;

/* Give the constants, which stay as they are from now on: 1; 0 where it has some, -1 for others. */
int32_t whet_model_attach(const void *constants, uint64_t size) {
  int32_t taken = 0;
  if (size != WHET_MODEL_CONSTANTS || (uintptr_t)constants % 64 != 0) return -1;
  pthread_mutex_lock(&whet_lock);
  if (whet_constants == NULL) whet_constants = constants, taken = 1;
  pthread_mutex_unlock(&whet_lock);
  return taken;
}

/* What an assertion that a call returned says: "batch is from 1 to 64"; NULL of other results. */
const char *whet_model_assert(int32_t code) {
  size_t count = sizeof whet_asserts / sizeof *whet_asserts - 1;
  if (code < WHET_FIRST_ASSERT || (size_t)(code - WHET_FIRST_ASSERT) >= count) return NULL;
  return whet_asserts[code - WHET_FIRST_ASSERT];
}

/* The choice for the sizes of some inputs. What is no array at all, the choice's own check says. */
static const WhetChoice *whet_choice(void **args) {
  size_t c;
  int32_t k, d;
  for (c = 0; c < sizeof whet_choices / sizeof *whet_choices; c++) {
    const int64_t *size = whet_choices[c].sizes;
    int fits = 1;
    for (k = 0; size != NULL && k < WHET_MODEL_INPUTS; k++) {
      const DLTensor *one = (const DLTensor *)args[k];
      int64_t rank = *size++;
      if (one != NULL && (one->ndim != rank || (rank != 0 && one->shape == NULL))) fits = 0;
      for (d = 0; d < rank; d++, size++)
        if (one != NULL && fits && one->shape[d] != *size) fits = 0;
    }
    if (fits) return &whet_choices[c];
  }
  return NULL;
}

/* The model: args are its inputs, then its outputs. */
int32_t whet_model(void **args, int32_t num_args) {
  int64_t sizes[2] = {WHET_MODEL_CONSTANTS, 0};
  void *all[WHET_MODEL_ARGS + 2];
  DLTensor more[2];
  const WhetChoice *choice;
  WhetArena *arena;
  int32_t k, code;
  if (num_args != WHET_MODEL_ARGS) return WHET_CHECK_COUNT << 24;
  choice = whet_choice(args);
  if (choice == NULL) return WHET_NO_BUCKET;
  sizes[1] = choice->arena;
  pthread_mutex_lock(&whet_lock);
  arena = whet_free;
  if (arena != NULL) whet_free = arena->next;
  pthread_mutex_unlock(&whet_lock);
  if (arena == NULL) {
    size_t room = WHET_MODEL_ARENA < sizeof *arena ? sizeof *arena : WHET_MODEL_ARENA;
    void *made = NULL;
    if (posix_memalign(&made, 64, room) != 0) return WHET_NO_MEMORY;
    arena = (WhetArena *)made;
  }
  for (k = 0; k < 2; k++) {
    DLTensor one = {k == 0 ? (void *)whet_constants : arena, {kDLCPU, 0}, 1, {kDLUInt, 8, 1},
                    &sizes[k], NULL, 0};
    more[k] = one;
    all[WHET_MODEL_ARGS + k] = &more[k];
  }
  for (k = 0; k < WHET_MODEL_ARGS; k++) all[k] = args[k];
  code = choice->entry(all, WHET_MODEL_ARGS + 2);
  pthread_mutex_lock(&whet_lock);
  arena->next = whet_free;
  whet_free = arena;
  pthread_mutex_unlock(&whet_lock);
  return code;
}
