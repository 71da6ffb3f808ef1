/* A stand-in for NVIDIA's driver library: what its files share.

   Memory of the host is the device's; an image is a library that the emulator's compiler made. Work
   is done by one thread of the library, in the order in which it was asked for, so that calls return
   before their work is done and errors come later, as with the driver. */
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
    MISALIGNED = 716, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
};

struct Context { int device, primary, retained; };

/* What the worker does, one after the other. */
struct Work {
    void (*act)(struct Work *);
    void *to;
    const void *from;
    void *staged;  /* freed when done */
    size_t bytes;
    unsigned value;
    struct Launch *launch;
    struct Event *event;
    struct Work *next;
};
struct Event { uint64_t asked, reached; double at; void *stream; };

extern int standin_devices(void);
extern struct Context *standin_context(void);  /* the thread's current one */

/* SUCCESS, or why nothing can be done: not initialised, a forked child, an earlier error. */
extern Result standin_ready(int needs_context);
#define READY(needs_context)                                                                       \
    do {                                                                                           \
        Result refused_ = standin_ready(needs_context);                                            \
        if (refused_ != SUCCESS) return refused_;                                                  \
    } while (0)

extern Result standin_put(struct Work work);   /* to the end of the queue */
extern Result standin_drain(void);             /* wait until all is done; the sticky error */
extern Result standin_reach(uint64_t number);  /* wait until so much is done */
extern uint64_t standin_asked(void);           /* the number of the last work */
extern uint64_t standin_done(void);
extern void standin_fail(Result error);        /* from the worker: every later call fails, too */

/* Allocations, for launches: filled into room for so many; the count is returned. */
struct Piece { uint64_t address, bytes; void *defined, *cells; };
extern unsigned standin_pieces(struct Piece **pieces);
extern int standin_is_pinned(const void *address);
#endif
