/* The queue of work: each stream an order of its own, but for events and default streams. */
#include "standin.h"
#include <pthread.h>

#define IS_STREAM 0x77686574u
enum { DONE = 1, WANTED = 2 };

struct Stream {
    uint64_t mark;
    struct Context *context;
    int blocking;  /* its work and the default stream's wait for each other's earlier work */
    uint64_t last;
    int captured;  /* 1 and the mode; 0: it is not */
    struct Graph *graph;
    struct Stream *next;
};

/* Nothing is done before somebody waits for it, and then only what that comes after: what should
   have been waited for, and was not, is not done. */
EXPORT int standin_lazy;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct Work *first, *last, *running;
static struct Stream *streams;  /* for good: work of one that is gone goes on */
static unsigned char *states;   /* of work, by its number */
static uint64_t asked, room;
static Result sticky;
static int working;

static int done(uint64_t number) { return number == 0 || (states[number] & DONE) != 0; }

static int is_ready(const struct Work *work) {
    if (standin_lazy && !(states[work->number] & WANTED)) return 0;
    for (unsigned k = 0; k < work->after_count; ++k)
        if (!done(work->after[k])) return 0;
    return 1;
}
static struct Work *newest(void) {
    struct Work *found = last;
    while (found != NULL && !is_ready(found)) found = found->before;
    return found;
}
static void take(struct Work *work) {
    *(work->before == NULL ? &first : &work->before->next) = work->next;
    *(work->next == NULL ? &last : &work->next->before) = work->before;
}
static void release(struct Work *work) {
    free(work->staged);
    free(work->launch);
    free(work->after);
    free(work);
}
static void *work_on(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct Work *own = newest();
        if (own == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        take(own);
        running = own;
        const int failed = sticky != SUCCESS;
        pthread_mutex_unlock(&lock);
        if (!failed && own->act != NULL) own->act(own);
        pthread_mutex_lock(&lock);
        running = NULL;
        states[own->number] |= DONE;
        pthread_cond_broadcast(&changed);
        release(own);
    }
    return NULL;
}

/* ---- streams */

struct Stream *standin_new_stream(struct Context *context, int blocking) {
    struct Stream *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    pthread_mutex_lock(&lock);
    *made = (struct Stream){IS_STREAM, context, blocking, 0, 0, NULL, streams};
    streams = made;
    pthread_mutex_unlock(&lock);
    return made;
}
void standin_drop_stream(struct Stream *stream) { stream->mark = 0; }

struct Stream *standin_stream(const void *handle) {
    struct Context *own = standin_context();
    if ((uintptr_t)handle > 2) {
        struct Stream *stream = (struct Stream *)(uintptr_t)handle;
        const int known = stream->mark == IS_STREAM && stream->context == own;
        return known && !stream->captured ? stream : NULL;
    }
    return own->streams[(uintptr_t)handle == 2];  /* 2: a thread's own; here of all threads */
}
int standin_capture(struct Stream *stream, int *had, int mode) {
    if (stream->mark != IS_STREAM || stream->blocking || (stream->captured > 0) != (mode < 0)) return 0;
    if (had != NULL) *had = stream->captured - 1;
    stream->captured = 1 + mode;
    if (mode >= 0) stream->graph = calloc(1, sizeof *stream->graph);
    return 1;
}
struct Graph *standin_graph(struct Stream *stream) { return stream->graph; }
int standin_is_captured(const struct Stream *stream) {
    return (uintptr_t)stream > 2 && stream->captured > 0;
}
uint64_t standin_last(const struct Stream *stream) {
    pthread_mutex_lock(&lock);
    const uint64_t number = stream->last;
    pthread_mutex_unlock(&lock);
    return number;
}

/* ---- work */

/* what it comes after; the default stream's comes after that of all streams that wait for it */
static void order(struct Work *work, uint64_t behind) {
    const struct Stream *own = work->stream, *standard = own->context->streams[0];
    unsigned count = 2;
    for (const struct Stream *s = streams; s != NULL; s = s->next) ++count;
    work->after = malloc(count * sizeof *work->after);
    work->after[0] = own->last;
    work->after[1] = behind;
    work->after_count = 2;
    for (const struct Stream *s = streams; s != NULL; s = s->next)
        if (s->context == own->context && (own == standard ? s->blocking : s == standard && own->blocking))
            work->after[work->after_count++] = s->last;
}
uint64_t standin_put(struct Work given, struct Stream *stream, uint64_t behind) {
    struct Work *own = malloc(sizeof *own);
    *own = given;
    own->stream = stream;
    own->next = NULL;
    pthread_mutex_lock(&lock);
    if (!working) {
        pthread_t thread;
        working = pthread_create(&thread, NULL, work_on, NULL) == 0;
        if (working) pthread_detach(thread);
    }
    const uint64_t number = own->number = ++asked;
    if (number >= room) {
        states = realloc(states, 2 * (number + 512));
        memset(states + room, 0, 2 * (number + 512) - room);
        room = 2 * (number + 512);
    }
    order(own, behind);
    stream->last = number;
    own->before = last;
    *(last == NULL ? &first : &last->next) = own;
    last = own;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return number;
}

static void want(uint64_t number) {
    if (number == 0) return;
    states[number] |= WANTED;
    for (const struct Work *w = last; w != NULL; w = w->before)
        for (unsigned k = 0; k < w->after_count && (states[w->number] & WANTED); ++k)
            if (w->after[k] != 0) states[w->after[k]] |= WANTED;
    pthread_cond_broadcast(&changed);
}
Result standin_reach(uint64_t number) {
    pthread_mutex_lock(&lock);
    want(number);
    while (!done(number)) pthread_cond_wait(&changed, &lock);
    const Result result = sticky;
    pthread_mutex_unlock(&lock);
    return result;
}
Result standin_drain(int device) {
    pthread_mutex_lock(&lock);
    for (const struct Stream *s = streams; s != NULL; s = s->next) {
        const uint64_t number = s->context->device == device ? s->last : 0;  /* others put more */
        want(number);
        while (!done(number)) pthread_cond_wait(&changed, &lock);
    }
    const Result result = sticky;
    pthread_mutex_unlock(&lock);
    return result;
}
int standin_finished(uint64_t number) {
    pthread_mutex_lock(&lock);
    const int result = done(number);
    pthread_mutex_unlock(&lock);
    return result;
}
int standin_uses(const void *code) {
    pthread_mutex_lock(&lock);
    int used = running != NULL && running->code == code;
    for (const struct Work *w = first; w != NULL; w = w->next) used |= w->code == code;
    used &= sticky == SUCCESS;
    pthread_mutex_unlock(&lock);
    return used;
}
Result standin_sticky(void) {
    pthread_mutex_lock(&lock);
    const Result result = sticky;
    pthread_mutex_unlock(&lock);
    return result;
}
void standin_fail(Result error) {
    pthread_mutex_lock(&lock);
    if (sticky == SUCCESS) sticky = error;
    pthread_mutex_unlock(&lock);
}
