/* Memory, copies and fills. */
#include "standin.h"
#include <pthread.h>

#define MOST_PIECES 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Piece pieces[MOST_PIECES], pinned[MOST_PIECES];
static unsigned piece_count, pinned_count;
static size_t used[STANDIN_DEVICES ? STANDIN_DEVICES : 1];
static int owners[MOST_PIECES];
static struct Context *makers[MOST_PIECES];

static int find(const struct Piece *table, unsigned count, Address address) {
    for (unsigned k = 0; k < count; ++k)
        if (address >= table[k].address && address < table[k].address + table[k].bytes) return (int)k;
    return -1;
}

static char reached[64][64];  /* whether a device was allowed to reach another's memory */

unsigned standin_pieces(struct Piece **found, int device) {
    pthread_mutex_lock(&lock);
    unsigned count = 0;
    *found = malloc(sizeof(struct Piece) * (piece_count + 1));
    for (unsigned k = 0; *found != NULL && k < piece_count; ++k)
        if (owners[k] == device || reached[device][owners[k]]) (*found)[count++] = pieces[k];
    pthread_mutex_unlock(&lock);
    return count;
}

int standin_is_pinned(const void *address) {
    pthread_mutex_lock(&lock);
    const int result = find(pinned, pinned_count, (Address)(uintptr_t)address) >= 0;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT Result cuMemAlloc_v2(Address *address, size_t bytes) {
    READY(1);
    ALLOWED(aside);
    if (bytes == 0) return INVALID_VALUE;
    const int device = standin_context()->device;
    void *made;
    pthread_mutex_lock(&lock);
    Result result = OUT_OF_MEMORY;
    if (used[device] + bytes <= STANDIN_MEMORY && piece_count < MOST_PIECES &&
        posix_memalign(&made, 512, bytes) == 0) {
        memset(made, 0xff, bytes);  /* not a number */
        owners[piece_count] = device;
        makers[piece_count] = standin_context();
        pieces[piece_count++] = (struct Piece){(Address)(uintptr_t)made, bytes, NULL, NULL};
        used[device] += bytes;
        *address = (Address)(uintptr_t)made;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
EXPORT Result cuMemFree_v2(Address address) {
    READY(1);
    ALLOWED(aside);
    standin_drain(standin_context()->device);  /* as the driver does */
    pthread_mutex_lock(&lock);
    const int k = find(pieces, piece_count, address);
    Result result = INVALID_VALUE;
    if (k >= 0 && pieces[k].address == address) {
        used[owners[k]] -= pieces[k].bytes;
        free((void *)(uintptr_t)address);
        pieces[k] = pieces[--piece_count];
        owners[k] = owners[piece_count];
        makers[k] = makers[piece_count];
        result = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
EXPORT Result cuMemGetInfo_v2(size_t *unused, size_t *all) {
    READY(1);
    ALLOWED(aside);
    pthread_mutex_lock(&lock);
    *unused = STANDIN_MEMORY - used[standin_context()->device];
    *all = STANDIN_MEMORY;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
EXPORT Result cuMemGetAddressRange_v2(Address *base, size_t *bytes, Address address) {
    READY(1);
    pthread_mutex_lock(&lock);
    const int k = find(pieces, piece_count, address);
    if (k >= 0 && base != NULL) *base = pieces[k].address;
    if (k >= 0 && bytes != NULL) *bytes = pieces[k].bytes;
    pthread_mutex_unlock(&lock);
    return k >= 0 ? SUCCESS : NOT_FOUND;
}
EXPORT Result cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    READY(1);
    ALLOWED(aside);
    if (bytes == 0 || pinned_count == MOST_PIECES) return INVALID_VALUE;
    if (posix_memalign(address, 4096, bytes) != 0) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    pinned[pinned_count++] = (struct Piece){(Address)(uintptr_t)*address, bytes, NULL, NULL};
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
EXPORT Result cuMemFreeHost(void *address) {
    READY(1);
    ALLOWED(aside);
    standin_drain(standin_context()->device);
    pthread_mutex_lock(&lock);
    const int k = find(pinned, pinned_count, (Address)(uintptr_t)address);
    const int own = k >= 0 && pinned[k].address == (Address)(uintptr_t)address;
    if (own) pinned[k] = pinned[--pinned_count];
    pthread_mutex_unlock(&lock);
    if (own) free(address);
    return own ? SUCCESS : INVALID_VALUE;
}
EXPORT Result cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned flags) {
    (void)flags;
    if (!standin_is_pinned(host)) return INVALID_VALUE;
    return *address = (Address)(uintptr_t)host, SUCCESS;
}

/* ---- copies: what the host may change at once is taken at once, page-locked memory when it is due */

static void act_copy(struct Work *w) {
    memmove(w->to, w->staged != NULL ? w->staged : w->from, w->bytes);
}

static int on_device(Address address, size_t bytes) {
    pthread_mutex_lock(&lock);
    int k = find(pieces, piece_count, address);
    int within = k >= 0 && address + bytes <= pieces[k].address + pieces[k].bytes;
    if (!within && (k = find(pinned, pinned_count, address)) >= 0)
        within = address + bytes <= pinned[k].address + pinned[k].bytes;
    pthread_mutex_unlock(&lock);
    return within;
}

/* The number of the copy, 0 where there is nothing to do. */
static Result copy(
    void *to, const void *from, size_t bytes, int stage, const void *stream, uint64_t *number) {
    struct Stream *own = standin_stream(stream);
    if (own == NULL) return INVALID_HANDLE;
    *number = 0;
    if (bytes == 0) return SUCCESS;
    struct Work work = {.act = act_copy, .to = to, .from = from, .bytes = bytes};
    if (stage) {
        work.staged = malloc(bytes);
        if (work.staged == NULL) return OUT_OF_MEMORY;
        memcpy(work.staged, from, bytes);
    }
    *number = standin_put(work, own, 0);
    return SUCCESS;
}
static Result copy_in(
    Address to, const void *from, size_t bytes, const void *stream, uint64_t *number) {
    READY(1);
    if (!on_device(to, bytes)) return INVALID_VALUE;
    return copy((void *)(uintptr_t)to, from, bytes, !standin_is_pinned(from), stream, number);
}
static Result copy_out(void *to, Address from, size_t bytes, const void *stream, uint64_t *number) {
    READY(1);
    if (!on_device(from, bytes)) return INVALID_VALUE;
    return copy(to, (const void *)(uintptr_t)from, bytes, 0, stream, number);
}

EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
    uint64_t number;
    return copy_in(to, from, bytes, stream, &number);
}
EXPORT Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
    uint64_t number;
    const Result result = copy_out(to, from, bytes, stream, &number);
    return result != SUCCESS || standin_is_pinned(to) ? result : standin_reach(number);
}
EXPORT Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream) {
    uint64_t number;
    READY(1);
    if (!on_device(to, bytes) || !on_device(from, bytes)) return INVALID_VALUE;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, 0, stream, &number);
}
/* What is not page-locked is read when this returns, and perhaps not yet written to the device. */
EXPORT Result cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
    uint64_t number;
    READY(1);
    ALLOWED(aside);
    Result result = standin_reach(standin_last(standin_stream(NULL)));
    if (result == SUCCESS) result = copy_in(to, from, bytes, NULL, &number);
    return result != SUCCESS || !standin_is_pinned(from) ? result : standin_reach(number);
}
EXPORT Result cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
    ALLOWED(aside);
    uint64_t number;
    const Result result = copy_out(to, from, bytes, NULL, &number);
    return result != SUCCESS ? result : standin_reach(number);
}
EXPORT Result cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NULL);  /* within the device it does not wait */
}
/* the number of the device whose memory it is, or -1 */
static int owner_of(Address address) {
    pthread_mutex_lock(&lock);
    const int k = find(pieces, piece_count, address), device = k < 0 ? -1 : owners[k];
    pthread_mutex_unlock(&lock);
    return device;
}
static struct Context *maker_of(Address address) {
    pthread_mutex_lock(&lock);
    const int k = find(pieces, piece_count, address);
    struct Context *maker = k < 0 ? NULL : makers[k];
    pthread_mutex_unlock(&lock);
    return maker;
}
EXPORT Result cuPointerGetAttribute(void *value, int which, Address address) {
    READY(1);
    const int device = owner_of(address);
    if ((which != 9 && which != 1) || device < 0) return INVALID_VALUE;
    if (which == 9) *(int *)value = device;
    if (which == 1) *(struct Context **)value = maker_of(address);
    return SUCCESS;
}
EXPORT unsigned standin_peer_copies;  /* how many there were */
EXPORT Result cuMemcpyPeerAsync(
    Address to, struct Context *to_context, Address from, struct Context *from_context, size_t bytes,
    void *stream) {
    READY(1);
    if (to_context == NULL || from_context == NULL) return INVALID_CONTEXT;
    if (owner_of(to) != to_context->device || owner_of(from) != from_context->device) return INVALID_VALUE;
    ++standin_peer_copies;
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
EXPORT Result cuMemcpyPeer(
    Address to, struct Context *to_context, Address from, struct Context *from_context, size_t bytes) {
    return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, NULL);
}
EXPORT Result cuCtxEnablePeerAccess(struct Context *peer, unsigned flags) {
    READY(1);
    const int own = standin_context()->device, other = peer == NULL ? own : peer->device;
    if (flags != 0 || other == own || own >= 64 || other >= 64) return INVALID_VALUE;
    return reached[own][other]++ == 0 ? SUCCESS : PEER_ACCESS_ALREADY_ENABLED;
}

static void act_fill8(struct Work *w) { memset(w->to, (int)w->value, w->bytes); }
static void act_fill16(struct Work *w) {
    for (size_t k = 0; k < w->bytes / 2; ++k) ((uint16_t *)w->to)[k] = (uint16_t)w->value;
}
static void act_fill32(struct Work *w) {
    for (size_t k = 0; k < w->bytes / 4; ++k) ((uint32_t *)w->to)[k] = w->value;
}
static Result fill(
    void (*act)(struct Work *), Address to, unsigned value, size_t bytes, const void *stream) {
    READY(1);
    struct Stream *own = standin_stream(stream);
    if (own == NULL) return INVALID_HANDLE;
    const int owner = owner_of(to);  /* -1: the host's */
    if (!on_device(to, bytes) || (owner >= 0 && owner != standin_context()->device)) return INVALID_VALUE;
    struct Work work = {.act = act, .to = (void *)(uintptr_t)to, .value = value, .bytes = bytes};
    return standin_put(work, own, 0), SUCCESS;
}
EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t count, void *stream) {
    return fill(act_fill8, to, value, count, stream);
}
EXPORT Result cuMemsetD16Async(Address to, unsigned short value, size_t count, void *stream) {
    return fill(act_fill16, to, value, 2 * count, stream);
}
EXPORT Result cuMemsetD32Async(Address to, unsigned value, size_t count, void *stream) {
    return fill(act_fill32, to, value, 4 * count, stream);
}
EXPORT Result cuMemsetD8_v2(Address to, unsigned char value, size_t count) {
    return fill(act_fill8, to, value, count, NULL);
}
EXPORT Result cuMemsetD16_v2(Address to, unsigned short value, size_t count) {
    return fill(act_fill16, to, value, 2 * count, NULL);
}
EXPORT Result cuMemsetD32_v2(Address to, unsigned value, size_t count) {
    return fill(act_fill32, to, value, 4 * count, NULL);
}
