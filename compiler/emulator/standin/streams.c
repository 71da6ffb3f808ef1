/* Streams and events. */
#include "standin.h"
#include <time.h>

#define IS_EVENT 0x6576656eu
enum { NON_BLOCKING = 1, NO_TIME = 2 };

/* One that is gone keeps its place: work may still have it. */
struct Event {
    uint64_t mark, asked;  /* the number of the work that reaches it; 0: it was never recorded */
    struct Context *context;
    int timed;
    double at;
    void *stream;
};

static int is_event(const struct Event *event) { return event != NULL && event->mark == IS_EVENT; }

EXPORT Result cuStreamCreate(struct Stream **stream, unsigned flags) {
    READY(1);
    ALLOWED(aside);
    if (flags > NON_BLOCKING) return INVALID_VALUE;
    *stream = standin_new_stream(standin_context(), flags != NON_BLOCKING);
    return *stream == NULL ? OUT_OF_MEMORY : SUCCESS;
}
EXPORT Result cuStreamDestroy_v2(struct Stream *stream) {
    READY(1);
    if ((uintptr_t)stream <= 2 || standin_stream(stream) == NULL) return INVALID_HANDLE;
    return standin_drop_stream(stream), SUCCESS;
}
EXPORT Result cuStreamSynchronize(const void *stream) {
    READY(1);
    ALLOWED(aside);
    const struct Stream *own = standin_stream(stream);
    return own == NULL ? INVALID_HANDLE : standin_reach(standin_last(own));
}
EXPORT Result cuStreamQuery(const void *stream) {
    READY(1);
    ALLOWED(aside);
    const struct Stream *own = standin_stream(stream);
    if (own == NULL) return INVALID_HANDLE;
    return standin_finished(standin_last(own)) ? SUCCESS : NOT_READY;
}

/* which stream was made to wait for which, as the handles came: a ring that tests read */
#define KEPT_WAITS 64
EXPORT struct { void *earlier, *later; } standin_waits[KEPT_WAITS];
EXPORT unsigned standin_wait_count;

EXPORT Result cuStreamWaitEvent(void *stream, struct Event *event, unsigned flags) {
    READY(1);
    struct Stream *own = standin_stream(stream);
    if (own == NULL || !is_event(event)) return INVALID_HANDLE;
    if (flags > 1) return INVALID_VALUE;
    standin_waits[standin_wait_count % KEPT_WAITS].earlier = event->stream;
    standin_waits[standin_wait_count++ % KEPT_WAITS].later = stream;
    return standin_put((struct Work){.act = NULL}, own, event->asked), SUCCESS;
}

EXPORT Result cuEventCreate(struct Event **event, unsigned flags) {
    READY(1);
    if (flags > 7) return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    if (*event == NULL) return OUT_OF_MEMORY;
    **event = (struct Event){
        .mark = IS_EVENT, .context = standin_context(), .timed = (flags & NO_TIME) == 0};
    return SUCCESS;
}
EXPORT Result cuEventDestroy_v2(struct Event *event) {
    READY(1);
    if (!is_event(event)) return INVALID_HANDLE;
    return event->mark = 0, SUCCESS;
}
static void act_record(struct Work *w) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    w->event->at = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}
EXPORT Result cuEventRecord(struct Event *event, void *stream) {
    READY(1);
    struct Stream *own = standin_stream(stream);
    if (own == NULL || !is_event(event) || event->context != standin_context()) return INVALID_HANDLE;
    event->stream = stream;
    event->asked = standin_put((struct Work){.act = act_record, .event = event}, own, 0);
    return SUCCESS;
}
EXPORT Result cuEventSynchronize(struct Event *event) {
    READY(1);
    ALLOWED(aside);
    return is_event(event) ? standin_reach(event->asked) : INVALID_HANDLE;
}
EXPORT Result cuEventQuery(struct Event *event) {
    READY(1);
    ALLOWED(aside);
    if (!is_event(event)) return INVALID_HANDLE;
    return standin_finished(event->asked) ? SUCCESS : NOT_READY;
}
EXPORT Result cuEventElapsedTime(float *milliseconds, struct Event *from, struct Event *to) {
    READY(1);
    if (!is_event(from) || !is_event(to) || !from->timed || !to->timed) return INVALID_HANDLE;
    if (from->asked == 0 || to->asked == 0) return INVALID_HANDLE;
    if (!standin_finished(from->asked) || !standin_finished(to->asked)) return NOT_READY;
    return *milliseconds = (float)(to->at - from->at), SUCCESS;
}
EXPORT Result cuEventElapsedTime_v2(float *milliseconds, struct Event *from, struct Event *to) {
    return cuEventElapsedTime(milliseconds, from, to);
}
