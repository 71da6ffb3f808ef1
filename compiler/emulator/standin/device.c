/* Devices, contexts and errors. */
#include "standin.h"
#include <stdio.h>
#include <unistd.h>

static const struct { int which, value; } attributes[] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
    {9, 65536}, {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1410000}, {14, 512}, {15, 1},
    {16, 108}, {19, 1}, {31, 1}, {36, 1215000}, {37, 5120}, {38, 41943040}, {39, 2048}, {40, 3},
    {41, 1}, {75, 8}, {76, 0}, {81, 167936}, {82, 65536}, {83, 1}, {97, 166912}, {106, 32},
};

static pid_t process;  /* which called cuInit; 0: none */
static int over;       /* the process ends, and the driver has gone before what uses it */
static struct Context primary[STANDIN_DEVICES];

/* ---- contexts */

static __thread struct Context *stack[64];
static __thread int depth;

struct Context *standin_context(void) { return depth == 0 ? NULL : stack[depth - 1]; }

static Result alive(void) {
    if (over) return DEINITIALIZED;
    return process == 0 || process != getpid() ? NOT_INITIALIZED : SUCCESS;
}
Result standin_ready(int needs_context) {
    if (alive() != SUCCESS) return alive();
    return needs_context && depth == 0 ? INVALID_CONTEXT : standin_sticky();
}
static void end(void) { over = 1; }

EXPORT Result cuInit(unsigned flags) {
    if (flags != 0) return INVALID_VALUE;
    if (process != 0 && process != getpid()) return NOT_INITIALIZED;  /* a forked child */
    if (process == 0) atexit(end);
    process = getpid();
    for (int k = 0; k < STANDIN_DEVICES; ++k) primary[k].device = k, primary[k].primary = 1;
    return STANDIN_DEVICES == 0 ? NO_DEVICE : SUCCESS;
}
/* NVRTC asks, when the assembler in it finds an error */
EXPORT Result cuGetExportTable(const void **table, const void *id) {
    (void)id;
    return *table = NULL, NOT_FOUND;
}
EXPORT Result cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }

static const struct { Result error; const char *name, *text; } errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {MISALIGNED, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

static Result describe(Result error, const char **text, int name) {
    for (size_t k = 0; k < sizeof errors / sizeof *errors; ++k)
        if (errors[k].error == error) {
            *text = name ? errors[k].name : errors[k].text;
            return SUCCESS;
        }
    *text = NULL;
    return INVALID_VALUE;
}
EXPORT Result cuGetErrorString(Result error, const char **text) { return describe(error, text, 0); }
EXPORT Result cuGetErrorName(Result error, const char **text) { return describe(error, text, 1); }

/* ---- devices */

static int known(int device) { return device >= 0 && device < STANDIN_DEVICES; }

EXPORT Result cuDeviceGetCount(int *count) {
    READY(0);
    return *count = STANDIN_DEVICES, SUCCESS;
}
EXPORT Result cuDeviceGet(int *device, int ordinal) {
    READY(0);
    if (!known(ordinal)) return INVALID_DEVICE;
    return *device = ordinal, SUCCESS;
}
EXPORT Result cuDeviceGetName(char *name, int room, int device) {
    if (!known(device)) return INVALID_DEVICE;
    snprintf(name, (size_t)room, "Whet stand-in");
    return SUCCESS;
}
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (!known(device)) return INVALID_DEVICE;
    return *bytes = STANDIN_MEMORY, SUCCESS;
}
EXPORT Result cuDeviceComputeCapability(int *major, int *minor, int device) {
    if (!known(device)) return INVALID_DEVICE;
    return *major = 8, *minor = 0, SUCCESS;
}
EXPORT Result cuDeviceGetAttribute(int *value, int which, int device) {
    if (!known(device)) return INVALID_DEVICE;
    *value = which == 33 ? device + 1 : 0;  /* the PCI bus */
    for (size_t k = 0; k < sizeof attributes / sizeof *attributes; ++k)
        if (attributes[k].which == which) *value = attributes[k].value;
    return SUCCESS;
}
EXPORT Result cuDeviceGetPCIBusId(char *id, int room, int device) {
    if (!known(device)) return INVALID_DEVICE;
    snprintf(id, (size_t)room, "0000:%02X:00.0", device + 1);
    return SUCCESS;
}
EXPORT Result cuDeviceGetByPCIBusId(int *device, const char *id) {
    unsigned domain, bus;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2 || !known((int)bus - 1)) return INVALID_VALUE;
    return *device = (int)bus - 1, SUCCESS;
}
EXPORT Result cuDeviceCanAccessPeer(int *can, int device, int peer) {
    if (!known(device) || !known(peer)) return INVALID_DEVICE;
    return *can = device != peer, SUCCESS;
}

static void open_streams(struct Context *context) {
    for (int k = 0; k < 2; ++k)
        if (context->streams[k] == NULL) context->streams[k] = standin_new_stream(context, k);
}
EXPORT Result cuDevicePrimaryCtxRetain(struct Context **context, int device) {
    READY(0);
    if (!known(device)) return INVALID_DEVICE;
    if (primary[device].retained++ == 0) open_streams(&primary[device]);
    return *context = &primary[device], SUCCESS;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(int device) {
    if (!known(device)) return INVALID_DEVICE;
    if (primary[device].retained == 0) return INVALID_CONTEXT;
    --primary[device].retained;
    return SUCCESS;
}
EXPORT Result cuCtxPushCurrent_v2(struct Context *context) {
    if (alive() != SUCCESS) return alive();
    if (context == NULL || context->retained == 0 || depth == 64) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}
EXPORT Result cuCtxPopCurrent_v2(struct Context **context) {
    if (alive() != SUCCESS) return alive();
    if (depth == 0) return INVALID_CONTEXT;
    --depth;
    if (context != NULL) *context = stack[depth];
    return SUCCESS;
}
EXPORT Result cuCtxGetCurrent(struct Context **context) {
    return *context = standin_context(), SUCCESS;
}
EXPORT Result cuCtxSetCurrent(struct Context *context) {
    if (depth > 0) --depth;
    return context == NULL ? SUCCESS : cuCtxPushCurrent_v2(context);
}
EXPORT Result cuCtxCreate_v2(struct Context **context, unsigned flags, int device) {
    (void)flags;
    READY(0);
    if (!known(device)) return INVALID_DEVICE;
    struct Context *made = calloc(1, sizeof *made);
    if (made == NULL) return OUT_OF_MEMORY;
    made->device = device;
    made->retained = 1;
    open_streams(made);
    return *context = made, cuCtxPushCurrent_v2(made);
}
EXPORT Result cuCtxCreate_v4(struct Context **context, void *more, unsigned flags, int device) {
    (void)more;
    return cuCtxCreate_v2(context, flags, device);
}
EXPORT Result cuCtxDetach(struct Context *context) {
    /* one that is gone keeps its place: its streams are there for good */
    if (context != NULL && !context->primary && --context->retained == 0 &&
        standin_context() == context)
        --depth;
    return SUCCESS;
}
EXPORT Result cuCtxAttach(struct Context **context, unsigned flags) {
    (void)flags;
    READY(1);
    *context = standin_context();
    ++(*context)->retained;
    return SUCCESS;
}
EXPORT Result cuCtxGetDevice(int *device) {
    READY(1);
    return *device = standin_context()->device, SUCCESS;
}
EXPORT Result cuCtxSynchronize(void) {
    READY(1);
    ALLOWED(all);
    return standin_drain(standin_context()->device);
}
EXPORT Result cuCtxGetApiVersion(struct Context *context, unsigned *version) {
    (void)context;
    return *version = 3020, SUCCESS;
}
