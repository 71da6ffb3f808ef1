/* Memory, copies, streams and events. */
#include "standin.h"
#include <pthread.h>
#include <time.h>

#define MOST_PIECES 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Piece pieces[MOST_PIECES], pinned[MOST_PIECES];
static unsigned piece_count, pinned_count;
static size_t used[STANDIN_DEVICES ? STANDIN_DEVICES : 1];
static int owners[MOST_PIECES];

static int find(const struct Piece *table, unsigned count, Address address) {
    for (unsigned k = 0; k < count; ++k)
        if (address >= table[k].address && address < table[k].address + table[k].bytes) return (int)k;
    return -1;
}

unsigned standin_pieces(struct Piece **found) {
    pthread_mutex_lock(&lock);
    const unsigned count = piece_count;
    *found = malloc(sizeof(struct Piece) * (count + 1));
    if (*found != NULL) memcpy(*found, pieces, sizeof(struct Piece) * count);
    pthread_mutex_unlock(&lock);
    return *found == NULL ? 0 : count;
}

int standin_is_pinned(const void *address) {
    pthread_mutex_lock(&lock);
    const int result = find(pinned, pinned_count, (Address)(uintptr_t)address) >= 0;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT Result cuMemAlloc_v2(Address *address, size_t bytes) {
    READY(1);
    if (bytes == 0) return INVALID_VALUE;
    const int device = standin_context()->device;
    void *made;
    pthread_mutex_lock(&lock);
    Result result = OUT_OF_MEMORY;
    if (used[device] + bytes <= STANDIN_MEMORY && piece_count < MOST_PIECES &&
        posix_memalign(&made, 512, bytes) == 0) {
        memset(made, 0xff, bytes);  /* not a number */
        owners[piece_count] = device;
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
    standin_drain();  /* as the driver does */
    pthread_mutex_lock(&lock);
    const int k = find(pieces, piece_count, address);
    Result result = INVALID_VALUE;
    if (k >= 0 && pieces[k].address == address) {
        used[owners[k]] -= pieces[k].bytes;
        free((void *)(uintptr_t)address);
        pieces[k] = pieces[--piece_count];
        owners[k] = owners[piece_count];
        result = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
EXPORT Result cuMemGetInfo_v2(size_t *unused, size_t *all) {
    READY(1);
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
    if (bytes == 0 || pinned_count == MOST_PIECES) return INVALID_VALUE;
    if (posix_memalign(address, 4096, bytes) != 0) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    pinned[pinned_count++] = (struct Piece){(Address)(uintptr_t)*address, bytes, NULL, NULL};
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
EXPORT Result cuMemFreeHost(void *address) {
    READY(1);
    standin_drain();
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

static Result copy(void *to, const void *from, size_t bytes, int stage) {
    if (bytes == 0) return SUCCESS;
    struct Work work = {.act = act_copy, .to = to, .from = from, .bytes = bytes};
    if (stage) {
        work.staged = malloc(bytes);
        if (work.staged == NULL) return OUT_OF_MEMORY;
        memcpy(work.staged, from, bytes);
    }
    return standin_put(work);
}

EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    READY(1);
    if (!on_device(to, bytes)) return INVALID_VALUE;
    return copy((void *)(uintptr_t)to, from, bytes, !standin_is_pinned(from));
}
EXPORT Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
    (void)stream;
    READY(1);
    if (!on_device(from, bytes)) return INVALID_VALUE;
    const Result result = copy(to, (const void *)(uintptr_t)from, bytes, 0);
    return result != SUCCESS || standin_is_pinned(to) ? result : standin_drain();
}
EXPORT Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream) {
    (void)stream;
    READY(1);
    if (!on_device(to, bytes) || !on_device(from, bytes)) return INVALID_VALUE;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, 0);
}
EXPORT Result cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
    const Result result = cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
    return result != SUCCESS ? result : standin_drain();
}
EXPORT Result cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
    const Result result = cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
    return result != SUCCESS ? result : standin_drain();
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
EXPORT Result cuPointerGetAttribute(void *value, int which, Address address) {
    const int device = owner_of(address);
    if (which != 9 || device < 0) return INVALID_VALUE;
    return *(int *)value = device, SUCCESS;
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
    static char reached[64][64];
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
static Result fill(void (*act)(struct Work *), Address to, unsigned value, size_t bytes) {
    READY(1);
    if (!on_device(to, bytes)) return INVALID_VALUE;
    struct Work work = {.act = act, .to = (void *)(uintptr_t)to, .value = value, .bytes = bytes};
    return standin_put(work);
}
EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t count, void *stream) {
    (void)stream;
    return fill(act_fill8, to, value, count);
}
EXPORT Result cuMemsetD16Async(Address to, unsigned short value, size_t count, void *stream) {
    (void)stream;
    return fill(act_fill16, to, value, 2 * count);
}
EXPORT Result cuMemsetD32Async(Address to, unsigned value, size_t count, void *stream) {
    (void)stream;
    return fill(act_fill32, to, value, 4 * count);
}
EXPORT Result cuMemsetD8_v2(Address to, unsigned char value, size_t count) {
    return fill(act_fill8, to, value, count);
}
EXPORT Result cuMemsetD16_v2(Address to, unsigned short value, size_t count) {
    return fill(act_fill16, to, value, 2 * count);
}
EXPORT Result cuMemsetD32_v2(Address to, unsigned value, size_t count) {
    return fill(act_fill32, to, value, 4 * count);
}

/* ---- streams and events: all work stands in one order, which every stream's order is part of */

struct Stream { uint64_t mark; struct Context *context; };
#define IS_STREAM 0x77686574u

/* 0, 1 and 2 are the default streams of whichever context is current */
static int is_stream(const struct Stream *stream) {
    return (uintptr_t)stream <= 2 || stream->mark == IS_STREAM;
}
EXPORT Result cuStreamCreate(struct Stream **stream, unsigned flags) {
    READY(1);
    if (flags > 1) return INVALID_VALUE;
    *stream = calloc(1, sizeof **stream);
    if (*stream == NULL) return OUT_OF_MEMORY;
    **stream = (struct Stream){IS_STREAM, standin_context()};
    return SUCCESS;
}
EXPORT Result cuStreamDestroy_v2(struct Stream *stream) {
    READY(1);
    if (!is_stream(stream)) return INVALID_HANDLE;
    stream->mark = 0;
    free(stream);
    return SUCCESS;
}
EXPORT Result cuStreamSynchronize(struct Stream *stream) {
    READY(1);
    return is_stream(stream) ? standin_drain() : INVALID_HANDLE;
}
EXPORT Result cuStreamQuery(void *stream) {
    (void)stream;
    READY(1);
    return standin_done() == standin_asked() ? SUCCESS : NOT_READY;
}
/* which stream was made to wait for which, as the handles came: a ring that tests read */
#define KEPT_WAITS 64
EXPORT struct { void *earlier, *later; } standin_waits[KEPT_WAITS];
EXPORT unsigned standin_wait_count;

EXPORT Result cuStreamWaitEvent(struct Stream *stream, struct Event *event, unsigned flags) {
    (void)flags;
    READY(1);
    if (event == NULL || !is_stream(stream)) return INVALID_HANDLE;
    standin_waits[standin_wait_count % KEPT_WAITS].earlier = event->stream;
    standin_waits[standin_wait_count++ % KEPT_WAITS].later = stream;
    return SUCCESS;
}

EXPORT Result cuEventCreate(struct Event **event, unsigned flags) {
    (void)flags;
    READY(1);
    *event = calloc(1, sizeof **event);
    return *event == NULL ? OUT_OF_MEMORY : SUCCESS;
}
EXPORT Result cuEventDestroy_v2(struct Event *event) {
    READY(1);
    standin_drain();
    free(event);
    return SUCCESS;
}
static void act_record(struct Work *w) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    w->event->at = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}
EXPORT Result cuEventRecord(struct Event *event, struct Stream *stream) {
    READY(1);
    if (event == NULL || !is_stream(stream)) return INVALID_HANDLE;
    if ((uintptr_t)stream > 2 && stream->context != standin_context()) return INVALID_HANDLE;
    event->stream = stream;
    struct Work work = {.act = act_record, .event = event};
    return standin_put(work);
}
EXPORT Result cuEventSynchronize(struct Event *event) {
    READY(1);
    return standin_reach(event->asked);
}
EXPORT Result cuEventQuery(struct Event *event) {
    READY(1);
    return standin_done() >= event->asked ? SUCCESS : NOT_READY;
}
EXPORT Result cuEventElapsedTime(float *milliseconds, struct Event *from, struct Event *to) {
    READY(1);
    if (from->asked == 0 || to->asked == 0) return INVALID_HANDLE;
    if (standin_done() < from->asked || standin_done() < to->asked) return NOT_READY;
    return *milliseconds = (float)(to->at - from->at), SUCCESS;
}
EXPORT Result cuEventElapsedTime_v2(float *milliseconds, struct Event *from, struct Event *to) {
    return cuEventElapsedTime(milliseconds, from, to);
}
