/* Captures of streams into graphs: what they forbid. A graph keeps launches; other work is refused. */
#include "standin.h"
#include <pthread.h>

enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned global_captures, captures;
static int spoiled;                       /* what is captured was given up */
static __thread unsigned own_captures;    /* of this thread, not relaxed */
static __thread int mode = GLOBAL;

/* What is no stream's work: refused while somebody captures, who then has no graph. */
Result standin_aside(void) {
    pthread_mutex_lock(&lock);
    const int refused = mode != RELAXED && (own_captures > 0 || (mode == GLOBAL && global_captures > 0));
    spoiled |= refused;
    pthread_mutex_unlock(&lock);
    return refused ? CAPTURE_UNSUPPORTED : SUCCESS;
}
/* A wait for the whole context, in which something is captured: in no mode. */
Result standin_all(void) {
    pthread_mutex_lock(&lock);
    const int refused = captures > 0;
    spoiled |= refused;
    pthread_mutex_unlock(&lock);
    return refused ? CAPTURE_UNSUPPORTED : SUCCESS;
}

EXPORT Result cuThreadExchangeStreamCaptureMode(int *exchanged) {
    if (*exchanged < GLOBAL || *exchanged > RELAXED) return INVALID_VALUE;
    const int before = mode;
    mode = *exchanged;
    return *exchanged = before, SUCCESS;
}
EXPORT Result cuStreamBeginCapture_v2(struct Stream *stream, int how) {
    READY(1);
    if (how < GLOBAL || how > RELAXED || (uintptr_t)stream <= 2) return INVALID_VALUE;
    if (!standin_capture(stream, NULL, how)) return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    if (captures++ == 0) spoiled = 0;
    global_captures += how == GLOBAL;
    own_captures += how != RELAXED;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
EXPORT Result cuStreamEndCapture(struct Stream *stream, void **graph) {
    READY(1);
    int how;
    if ((uintptr_t)stream <= 2 || !standin_capture(stream, &how, -1)) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    --captures;
    global_captures -= how == GLOBAL;
    own_captures -= how != RELAXED;
    const int given_up = spoiled;
    pthread_mutex_unlock(&lock);
    *graph = given_up ? NULL : standin_graph(stream);
    return given_up ? CAPTURE_INVALIDATED : SUCCESS;
}
EXPORT Result cuStreamIsCapturing(const struct Stream *stream, int *status) {
    READY(1);
    return *status = standin_is_captured(stream), SUCCESS;
}
