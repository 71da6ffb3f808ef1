/* Modules, functions and launches: an image is a library that the emulator's compiler made. */
#include "standin.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <unistd.h>

/* As in the emulator's launch.h and checks.h. */
struct Shape { size_t offset, bytes; int element; _Bool writes; };
struct Kernel {
    const char *name;
    const char *const *names;
    int count;
    size_t packed_bytes;
    const struct Shape *shapes;
    void *call;
    long long most_threads;
};
struct EmulatorLaunch {
    uint32_t grid[3], block[3], shared_bytes, seed, first_interval, allocation_count;
    const struct Piece *allocations;
    const unsigned char *packed;
    unsigned char *stacks;  /* null: the library's own */
};
struct Report {
    int fault;
    unsigned char rest[1024];
};
enum { OUT_OF_BOUNDS = 1, TRAP = 6, WAS_MISALIGNED = 8 };
typedef int Launcher(int, const struct EmulatorLaunch *, struct Report *, uint32_t *);
typedef int Finder(const char *, size_t *);

struct Module { void *library; };
struct Function {
    const struct Kernel *kernel;
    const struct Module *module;
    Launcher *launcher;
    int number, shared_bytes;
};
struct Launch {
    struct Function function;
    struct EmulatorLaunch launch;
    int device;
    unsigned char packed[];
};

EXPORT unsigned standin_modules;  /* how many are loaded */
EXPORT unsigned standin_graph_launches;  /* how many there were */

EXPORT Result cuModuleLoadData(struct Module **module, const void *image) {
    READY(1);
    ALLOWED(aside);
    const Elf64_Ehdr *head = image;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_type != ET_DYN) return INVALID_IMAGE;
    const size_t bytes = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    struct Module *made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    /* a name that no library had before: one that is closed may stay loaded under its name */
    const char *place = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/whet-standin-XXXXXX", place != NULL ? place : "/tmp");
    const int file = mkstemp(path);
    if (file >= 0 && write(file, image, bytes) == (ssize_t)bytes)
        made->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file >= 0) close(file), unlink(path);
    if (made->library == NULL || dlsym(made->library, "whet_emulator_launch") == NULL) {
        if (made->library != NULL) dlclose(made->library);
        free(made);
        return INVALID_IMAGE;
    }
    ++standin_modules;
    return *module = made, SUCCESS;
}
EXPORT Result cuModuleLoadDataEx(
    struct Module **module, const void *image, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}
EXPORT Result cuModuleUnload(struct Module *module) {
    READY(1);
    ALLOWED(aside);
    if (standin_uses(module)) standin_fail(LAUNCH_FAILED);  /* nobody promises that it waits */
    if (standin_sticky() != SUCCESS) return standin_sticky();
    --standin_modules;
    dlclose(module->library);
    free(module);
    return SUCCESS;
}
EXPORT Result cuModuleGetFunction(struct Function **function, struct Module *module, const char *name) {
    READY(1);
    Finder *find = (Finder *)dlsym(module->library, "whet_emulator_find");
    const struct Kernel *kernels = dlsym(module->library, "whet_kernels");
    size_t bytes;
    const int number = find == NULL || kernels == NULL ? -1 : find(name, &bytes);
    if (number < 0) return NOT_FOUND;
    struct Function *made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    made->kernel = &kernels[number];
    made->module = module;
    made->launcher = (Launcher *)dlsym(module->library, "whet_emulator_launch");
    made->number = number;
    made->shared_bytes = 49152;
    return *function = made, SUCCESS;  /* as long as the process lives */
}
EXPORT Result cuFuncSetAttribute(struct Function *function, int which, int value) {
    READY(1);
    if (which != 8) return SUCCESS;
    if (value < 0 || value > 166912) return INVALID_VALUE;
    return function->shared_bytes = value, SUCCESS;
}
EXPORT Result cuFuncGetAttribute(int *value, int which, struct Function *function) {
    READY(1);
    *value = which == 0 ? 1024 : which == 8 ? function->shared_bytes : 0;
    return SUCCESS;
}
EXPORT Result cuFuncSetCacheConfig(struct Function *function, int config) {
    (void)function, (void)config;
    return SUCCESS;
}

/* pycuda tells the block once before it launches with it */
EXPORT Result cuFuncSetBlockShape(struct Function *function, int x, int y, int z) {
    (void)function;
    READY(1);
    return x < 1 || y < 1 || z < 1 || z > 64 || (long long)x * y * z > 1024 ? INVALID_VALUE : SUCCESS;
}
EXPORT Result cuFuncSetSharedSize(struct Function *function, unsigned bytes) {
    READY(1);
    return (int)bytes > function->shared_bytes ? INVALID_VALUE : SUCCESS;
}

static uint32_t next_interval = 1;  /* the worker's alone */

static void act_launch(struct Work *w) {
    struct Launch *own = w->launch;
    struct Piece *pieces;
    own->launch.allocation_count = standin_pieces(&pieces, own->device);
    own->launch.allocations = pieces;
    own->launch.packed = own->packed;
    own->launch.first_interval = next_interval;
    struct Report report;
    uint32_t last = next_interval;
    const int fault = own->function.launcher(own->function.number, &own->launch, &report, &last);
    next_interval = last + 1;
    free(pieces);
    if (fault == 0) return;
    fprintf(stderr, "stand-in: fault %d in %s\n", fault, own->function.kernel->name);
    standin_fail(
        fault == OUT_OF_BOUNDS ? ILLEGAL_ADDRESS
        : fault == TRAP        ? ASSERT
        : fault == WAS_MISALIGNED ? MISALIGNED
                               : LAUNCH_FAILED);
}

static int pack(struct Launch *own, size_t bytes, void **each, void **extra) {
    const struct Kernel *kernel = own->function.kernel;
    for (int k = 0; each != NULL && k < kernel->count; ++k)
        memcpy(own->packed + kernel->shapes[k].offset, each[k], kernel->shapes[k].bytes);
    if (each != NULL) return 1;
    const void *given = NULL;
    size_t size = 0;
    for (int k = 0; extra != NULL && extra[k] != NULL; k += 2) {
        if (extra[k] == (void *)1) given = extra[k + 1];
        if (extra[k] == (void *)2) size = *(const size_t *)extra[k + 1];
    }
    if (size < bytes || (given == NULL && bytes > 0)) return 0;
    memcpy(own->packed, given, bytes);
    return 1;
}

static void put(struct Launch *own, struct Stream *order) {
    const struct Work work = {.act = act_launch, .launch = own, .code = own->function.module};
    standin_put(work, order, 0);
}
static Result keep(struct Graph *graph, struct Launch *own) {
    struct Launch **all = realloc(graph->launches, (graph->count + 1) * sizeof *all);
    if (all == NULL || own == NULL) return OUT_OF_MEMORY;
    graph->launches = all;
    graph->launches[graph->count++] = own;
    return SUCCESS;
}

EXPORT Result cuLaunchKernel(
    struct Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared_bytes, void *stream, void **each, void **extra) {
    READY(1);
    struct Graph *kept = standin_is_captured(stream) ? standin_graph(stream) : NULL;
    struct Stream *order = kept == NULL ? standin_stream(stream) : NULL;
    if (function == NULL || (kept == NULL && order == NULL)) return INVALID_HANDLE;
    const unsigned long long threads = (unsigned long long)bx * by * bz;
    if (threads == 0 || threads > 1024 || bz > 64 || gx == 0 || gy == 0 || gz == 0 || gy > 65535 ||
        gz > 65535 || (int)shared_bytes > function->shared_bytes)
        return INVALID_VALUE;
    const size_t bytes = function->kernel->packed_bytes;
    struct Launch *own = calloc(1, sizeof *own + bytes);
    if (own == NULL) return OUT_OF_MEMORY;
    own->function = *function;
    own->device = standin_context()->device;
    own->launch = (struct EmulatorLaunch){
        .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared_bytes};
    if (!pack(own, bytes, each, extra)) {
        free(own);
        return INVALID_VALUE;
    }
    if (kept != NULL) return keep(kept, own);
    put(own, order);
    return SUCCESS;
}

/* ---- graphs */

static struct Launch *copied(const struct Launch *launch) {
    const size_t bytes = sizeof *launch + launch->function.kernel->packed_bytes;
    struct Launch *made = malloc(bytes);
    return made == NULL ? NULL : memcpy(made, launch, bytes);
}
EXPORT Result cuGraphInstantiateWithFlags(
    struct Graph **made, const struct Graph *graph, unsigned long long flags) {
    READY(1);
    ALLOWED(aside);
    if (graph == NULL || flags != 0) return INVALID_VALUE;
    *made = calloc(1, sizeof **made);
    for (unsigned k = 0; k < graph->count; ++k) keep(*made, copied(graph->launches[k]));
    return SUCCESS;
}
EXPORT Result cuGraphLaunch(const struct Graph *graph, void *stream) {
    READY(1);
    struct Stream *order = standin_stream(stream);
    if (graph == NULL || order == NULL) return INVALID_HANDLE;
    ++standin_graph_launches;
    for (unsigned k = 0; k < graph->count; ++k) put(copied(graph->launches[k]), order);
    return SUCCESS;
}
EXPORT Result cuGraphDestroy(struct Graph *graph) {
    READY(1);
    for (unsigned k = 0; k < graph->count; ++k) free(graph->launches[k]);
    free(graph->launches);
    free(graph);
    return SUCCESS;
}
EXPORT Result cuGraphExecDestroy(struct Graph *graph) { return cuGraphDestroy(graph); }
