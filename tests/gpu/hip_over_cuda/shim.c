/* HIP's runtime and hiprtc over the CUDA driver and NVRTC: the functions that workbench/gpu/devices/hip.py
   needs, so that its tests run on an NVIDIA GPU. Streams, events, modules, functions and graphs are CUDA's
   own handles; error numbers are CUDA's where HIP has the same one. For tests alone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NVRTC_NAME
#define NVRTC_NAME "" /* the file's name, where build.py knows it; it knows its folder, too */
#endif

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 16
#define UNKNOWN 999
#define NO_DEVICE 100

typedef void *handle;
typedef uintptr_t address;

/* The libraries. */

static void *open_first(const char *const *names) {
  for (; *names; names++) {
    void *library = **names ? dlopen(*names, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library) return library;
  }
  return NULL;
}

static const char *from_environment(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

static void *cuda_symbol(const char *name) {
  static void *library;
  if (!library) {
    const char *names[] = {from_environment("HIP_OVER_CUDA_DRIVER"), "libcuda.so.1", NULL};
    library = open_first(names);
  }
  return library ? dlsym(library, name) : NULL;
}

static void *nvrtc_symbol(const char *name) {
  static void *library;
  if (!library) {
    const char *names[] = {NVRTC_NAME, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    library = open_first(names);
  }
  return library ? dlsym(library, name) : NULL;
}

/* HIP's number of a CUDA error: its own where it has it. */
static int status_of(int status) {
  static const int known[] = {0,   1,   2,   3,   4,   100, 101, 200, 201, 209, 218, 300, 301, 302,
                              303, 304, 400, 401, 500, 600, 700, 701, 702, 709, 710, 719, 720, 801,
                              900, 901, 902, 903, 904, 905, 906, 907, 908};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (known[k] == status) return status;
  return UNKNOWN;
}

#define CUDA(name, types, arguments)                                        \
  ({                                                                        \
    static int(*called) types;                                              \
    if (!called) called = (int(*) types)cuda_symbol(#name);                 \
    called ? status_of(called arguments) : NO_DEVICE;                       \
  })

#define NVRTC(name, types, arguments)                                       \
  ({                                                                        \
    static int(*called) types;                                              \
    if (!called) called = (int(*) types)nvrtc_symbol(#name);                \
    called ? called arguments : 11;                                         \
  })

#define TRY(call)                    \
  do {                               \
    int failed = (call);             \
    if (failed) return failed;       \
  } while (0)

/* The current device of a thread is a primary context, as in CUDA's own runtime. */

static __thread int current;
static handle contexts[DEVICES];

static int start(void) {
  static int started;
  if (!started) {
    TRY(CUDA(cuInit, (unsigned), (0)));
    started = 1;
  }
  return 0;
}

static int enter(void) {
  TRY(start());
  if (!contexts[current]) {
    handle context;
    TRY(CUDA(cuDevicePrimaryCtxRetain, (handle *, int), (&context, current)));
    contexts[current] = context;
  }
  return CUDA(cuCtxSetCurrent, (handle), (contexts[current]));
}

#define ENTERED(name, types, arguments)         \
  ({                                            \
    int entered = enter();                      \
    entered ? entered : CUDA(name, types, arguments); \
  })

static int cuda_attribute(int *value, int attribute, int device) {
  return CUDA(cuDeviceGetAttribute, (int *, int, int), (value, attribute, device));
}

static int arch_of(char *text, size_t size, int device) {
  int major = 0, minor = 0;
  TRY(cuda_attribute(&major, 75, device));
  TRY(cuda_attribute(&minor, 76, device));
  snprintf(text, size, "sm_%d%d", major, minor);
  return 0;
}

/* Devices. */

EXPORT int hipInit(unsigned flags) { return flags ? 1 : start(); }

EXPORT int hipGetDeviceCount(int *count) {
  *count = 0;
  TRY(start());
  TRY(CUDA(cuDeviceGetCount, (int *), (count)));
  return *count ? 0 : NO_DEVICE;
}

EXPORT int hipSetDevice(int device) {
  if (device < 0 || device >= DEVICES) return 101;
  current = device;
  return enter();
}

EXPORT int hipGetDevice(int *device) {
  *device = current;
  return 0;
}

EXPORT int hipDeviceGetName(char *name, int size, int device) {
  TRY(start());
  return CUDA(cuDeviceGetName, (char *, int, int), (name, size, device));
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
  TRY(start());
  return CUDA(cuDeviceTotalMem_v2, (size_t *, int), (bytes, device));
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
  static const int hip_to_cuda[][2] = {
      {5, 13},  /* clock rate */
      {19, 38}, /* L2 cache */
      {23, 75}, /* compute capability, major */
      {56, 1},  /* threads of a block */
      {59, 37}, /* width of the memory's bus */
      {60, 36}, /* memory's clock rate */
      {61, 76}, /* compute capability, minor */
      {63, 16}, /* multiprocessors */
      {74, 97}, /* shared memory of a block that asks for all of it */
      {87, 10}, /* warp */
  };
  TRY(start());
  for (size_t k = 0; k < sizeof hip_to_cuda / sizeof *hip_to_cuda; k++)
    if (hip_to_cuda[k][0] == attribute) return cuda_attribute(value, hip_to_cuda[k][1], device);
  return 1;
}

/* The name and the architecture alone, at their places in HIP 6's structure of 1472 bytes. */
EXPORT int hipGetDevicePropertiesR0600(char *properties, int device) {
  memset(properties, 0, 1472);
  TRY(hipDeviceGetName(properties, 256, device));
  return arch_of(properties + 1160, 256, device);
}

EXPORT int hipRuntimeGetVersion(int *version) {
  int cuda = 0; /* 13000 is 13.0; HIP writes 13.0.0 as 130000000 */
  TRY(CUDA(cuDriverGetVersion, (int *), (&cuda)));
  *version = cuda / 1000 * 10000000 + cuda % 1000 / 10 * 100000;
  return 0;
}

EXPORT int hipDriverGetVersion(int *version) { return hipRuntimeGetVersion(version); }
EXPORT int hipDeviceSynchronize(void) { return ENTERED(cuCtxSynchronize, (void), ()); }

/* Memory. */

EXPORT int hipMemGetInfo(size_t *left, size_t *total) {
  return ENTERED(cuMemGetInfo_v2, (size_t *, size_t *), (left, total));
}

EXPORT int hipMalloc(address *pointer, size_t bytes) {
  *pointer = 0;
  return bytes ? ENTERED(cuMemAlloc_v2, (address *, size_t), (pointer, bytes)) : 0;
}

EXPORT int hipFree(address pointer) {
  return pointer ? ENTERED(cuMemFree_v2, (address), (pointer)) : 0;
}

EXPORT int hipMemcpy(address to, address from, size_t bytes, int kind) {
  (void)kind; /* addresses are unified */
  return ENTERED(cuMemcpy, (address, address, size_t), (to, from, bytes));
}

EXPORT int hipMemcpyAsync(address to, address from, size_t bytes, int kind, handle stream) {
  (void)kind;
  return ENTERED(cuMemcpyAsync, (address, address, size_t, handle), (to, from, bytes, stream));
}

EXPORT int hipMemsetAsync(address to, int value, size_t bytes, handle stream) {
  return ENTERED(cuMemsetD8Async, (address, unsigned char, size_t, handle),
                 (to, (unsigned char)value, bytes, stream));
}

/* Streams and events. HIP's flags are CUDA's. */

EXPORT int hipStreamCreateWithFlags(handle *stream, unsigned flags) {
  return ENTERED(cuStreamCreate, (handle *, unsigned), (stream, flags));
}

EXPORT int hipStreamDestroy(handle stream) {
  return ENTERED(cuStreamDestroy_v2, (handle), (stream));
}

EXPORT int hipStreamSynchronize(handle stream) {
  return ENTERED(cuStreamSynchronize, (handle), (stream));
}

EXPORT int hipStreamWaitEvent(handle stream, handle event, unsigned flags) {
  return ENTERED(cuStreamWaitEvent, (handle, handle, unsigned), (stream, event, flags));
}

EXPORT int hipEventCreateWithFlags(handle *event, unsigned flags) {
  return ENTERED(cuEventCreate, (handle *, unsigned), (event, flags & 3));
}

EXPORT int hipEventCreate(handle *event) { return hipEventCreateWithFlags(event, 0); }

EXPORT int hipEventDestroy(handle event) {
  return ENTERED(cuEventDestroy_v2, (handle), (event));
}

EXPORT int hipEventRecord(handle event, handle stream) {
  return ENTERED(cuEventRecord, (handle, handle), (event, stream));
}

EXPORT int hipEventSynchronize(handle event) {
  return ENTERED(cuEventSynchronize, (handle), (event));
}

EXPORT int hipEventQuery(handle event) {
  return ENTERED(cuEventQuery, (handle), (event));
}

EXPORT int hipEventElapsedTime(float *ms, handle first, handle last) {
  return ENTERED(cuEventElapsedTime, (float *, handle, handle), (ms, first, last));
}

/* Code. */

EXPORT int hipModuleLoadData(handle *module, const void *image) {
  return ENTERED(cuModuleLoadData, (handle *, const void *), (module, image));
}

EXPORT int hipModuleUnload(handle module) {
  return ENTERED(cuModuleUnload, (handle), (module));
}

EXPORT int hipModuleGetFunction(handle *function, handle module, const char *name) {
  return ENTERED(cuModuleGetFunction, (handle *, handle, const char *), (function, module, name));
}

EXPORT int hipFuncGetAttribute(int *value, int attribute, handle function) {
  return ENTERED(cuFuncGetAttribute, (int *, int, handle), (value, attribute, function));
}

EXPORT int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, handle function,
                                                              int threads, size_t shared) {
  return ENTERED(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, handle, int, size_t),
                 (blocks, function, threads, shared));
}

/* HIP's list of launch parameters ends with 3, CUDA's with 0. On AMD's devices a block has all of its
   shared memory without asking for it. */
EXPORT int hipModuleLaunchKernel(handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned shared, handle stream, void **parameters, void **extra) {
  void *list[5] = {(void *)1, NULL, (void *)2, NULL, NULL};
  if (extra) {
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
    list[1] = extra[1];
    list[3] = extra[3];
  }
  TRY(enter());
  if (shared > 48 * 1024)
    TRY(CUDA(cuFuncSetAttribute, (handle, int, int), (function, 8, (int)shared)));
  return CUDA(cuLaunchKernel,
              (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,
               void **, void **),
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
               parameters, extra ? list : NULL));
}

/* Graphs. */

EXPORT int hipStreamBeginCapture(handle stream, int mode) {
  return ENTERED(cuStreamBeginCapture_v2, (handle, int), (stream, mode));
}

EXPORT int hipStreamEndCapture(handle stream, handle *graph) {
  return ENTERED(cuStreamEndCapture, (handle, handle *), (stream, graph));
}

EXPORT int hipGraphInstantiateWithFlags(handle *instance, handle graph, unsigned long long flags) {
  return ENTERED(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long),
                 (instance, graph, flags));
}

EXPORT int hipGraphLaunch(handle instance, handle stream) {
  return ENTERED(cuGraphLaunch, (handle, handle), (instance, stream));
}

EXPORT int hipGraphDestroy(handle graph) { return ENTERED(cuGraphDestroy, (handle), (graph)); }

EXPORT int hipGraphExecDestroy(handle instance) {
  return ENTERED(cuGraphExecDestroy, (handle), (instance));
}

/* hiprtc. Its numbers are NVRTC's. */

EXPORT int hiprtcVersion(int *major, int *minor) {
  return NVRTC(nvrtcVersion, (int *, int *), (major, minor));
}

EXPORT int hiprtcCreateProgram(handle *program, const char *source, const char *name, int count,
                               const char *const *headers, const char *const *names) {
  return NVRTC(nvrtcCreateProgram,
               (handle *, const char *, const char *, int, const char *const *, const char *const *),
               (program, source, name, count, headers, names));
}

/* `--offload-arch=…` says to NVRTC `--gpu-architecture=…`, in place of what HIP says. */
EXPORT int hiprtcCompileProgram(handle program, int count, const char *const *options) {
  static const char hip[] = "--offload-arch=", cuda[] = "--gpu-architecture=";
  const char *given[count + 1];
  char architecture[64];
  for (int k = 0; k < count; k++) {
    given[k] = options[k];
    if (!strncmp(options[k], hip, sizeof hip - 1)) {
      snprintf(architecture, sizeof architecture, "%s%s", cuda, options[k] + sizeof hip - 1);
      given[k] = architecture;
    }
  }
  return NVRTC(nvrtcCompileProgram, (handle, int, const char *const *), (program, count, given));
}

EXPORT int hiprtcDestroyProgram(handle *program) {
  return NVRTC(nvrtcDestroyProgram, (handle *), (program));
}

EXPORT int hiprtcGetProgramLogSize(handle program, size_t *size) {
  return NVRTC(nvrtcGetProgramLogSize, (handle, size_t *), (program, size));
}

EXPORT int hiprtcGetProgramLog(handle program, char *log) {
  return NVRTC(nvrtcGetProgramLog, (handle, char *), (program, log));
}

EXPORT int hiprtcGetCodeSize(handle program, size_t *size) {
  return NVRTC(nvrtcGetCUBINSize, (handle, size_t *), (program, size));
}

EXPORT int hiprtcGetCode(handle program, char *code) {
  return NVRTC(nvrtcGetCUBIN, (handle, char *), (program, code));
}
