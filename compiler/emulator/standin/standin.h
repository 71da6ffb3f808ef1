/* A stand-in for NVIDIA's driver library: what its files share.

   Memory of the host is the device's; an image is a library that the emulator's compiler made. Work
   is done by one thread of the library: calls return before their work is done and errors come
   later, as with the driver. Of work that nothing orders the newest is done first. */
#ifndef STANDIN_H
#define STANDIN_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#ifndef STANDIN_DEVICES
#define STANDIN_DEVICES 2
#endif
#define STANDIN_MEMORY (1ull << 34)

typedef int Result;
typedef unsigned long long Address;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEINITIALIZED = 4,
    NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
    PEER_ACCESS_ALREADY_ENABLED = 704, ASSERT = 710,
    MISALIGNED = 716, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};

struct Context { int device, primary, retained; struct Stream *streams[2]; };

/* What the worker does when what it comes after is done. */
struct Work {
    void (*act)(struct Work *);
    void *to;
    const void *from;
    void *staged;  /* freed when done */
    size_t bytes;
    unsigned value;
    struct Launch *launch;
    const void *code;  /* the module that must not go before */
    struct Event *event;
    struct Stream *stream;
    uint64_t number, *after;
    unsigned after_count;
    struct Work *next, *before;
};

extern int standin_devices(void);
extern struct Context *standin_context(void);  /* the thread's current one */

/* Launches that were captured, in order; an executable graph is a copy. */
struct Graph { unsigned count; struct Launch **launches; };
extern struct Graph *standin_graph(struct Stream *stream);  /* of the capture that goes on, or went */

/* SUCCESS, or why nothing can be done: not initialised, forked, at its end, an earlier error. */
extern Result standin_ready(int needs_context);
#define READY(needs_context)                                                                       \
    do {                                                                                           \
        Result refused_ = standin_ready(needs_context);                                            \
        if (refused_ != SUCCESS) return refused_;                                                  \
    } while (0)

/* SUCCESS, or why a capture forbids what is no stream's work (aside), or a wait for all (all). */
extern Result standin_aside(void);
extern Result standin_all(void);
#define ALLOWED(what)                                                                              \
    do {                                                                                           \
        Result refused_ = standin_##what();                                                        \
        if (refused_ != SUCCESS) return refused_;                                                  \
    } while (0)

/* The stream of a handle in the current context that takes work; null: there is none. */
extern struct Stream *standin_stream(const void *handle);
extern struct Stream *standin_new_stream(struct Context *context, int blocking);
extern void standin_drop_stream(struct Stream *stream);
/* Begin a capture of a stream in a mode, or end it (-1), and tell the mode that it had; 0: it cannot. */
extern int standin_capture(struct Stream *stream, int *had, int mode);
extern int standin_is_captured(const struct Stream *stream);
extern uint64_t standin_last(const struct Stream *stream);  /* the number of its last work */

/* To the end of a stream, and behind work of another one (0: of none); the work's number. */
extern uint64_t standin_put(struct Work work, struct Stream *stream, uint64_t behind);
extern Result standin_reach(uint64_t number);  /* wait until that is done; the sticky error */
extern Result standin_drain(int device);       /* wait until all of a device is done */
extern int standin_finished(uint64_t number);
extern int standin_uses(const void *code);     /* whether work that is not done has that code */
extern Result standin_sticky(void);
extern void standin_fail(Result error);        /* every later call fails, too */

/* Allocations that a device reaches, for launches: filled into room for so many. */
struct Piece { uint64_t address, bytes; void *defined, *cells; };
extern unsigned standin_pieces(struct Piece **pieces, int device);
extern int standin_is_pinned(const void *address);
#endif
