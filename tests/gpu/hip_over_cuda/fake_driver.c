/* As much of the CUDA driver as the shim calls, over the host's memory: for tests where no GPU is.
   A kernel `twice(const float *x, float *y, int n)` runs as C; one called `astray` loses the device. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef DEVICES
#define DEVICES 1
#endif
typedef void *handle;
typedef uintptr_t address;
struct kernel { char name[32]; };
enum { OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

static const size_t memory = (size_t)1 << 26;
static int lost;

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = DEVICES, 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = memory, device >= DEVICES; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDevicePrimaryCtxRetain(handle *context, int device) { return *context = &lost, device >= DEVICES; }
int cuCtxSetCurrent(handle context) { return !context; }
int cuCtxSynchronize(void) { return lost; }

int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "a fake GPU");
  return device >= DEVICES;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int facts[][2] = {{1, 1024}, {10, 32}, {13, 1500000}, {16, 4}, {75, 9}, {76, 0}, {97, 65536}};
  for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
    if (facts[k][0] == attribute) return *value = facts[k][1], device >= DEVICES;
  return 1;
}

int cuMemAlloc_v2(address *pointer, size_t bytes) {
  if (bytes > memory) return OUT_OF_MEMORY;
  *pointer = (address)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return 0;
}

int cuMemFree_v2(address pointer) { return free((void *)pointer), 0; }

int cuMemcpyAsync(address to, address from, size_t bytes, handle stream) {
  (void)stream;
  return memcpy((void *)to, (void *)from, bytes), lost;
}

int cuMemsetD8Async(address to, unsigned char value, size_t bytes, handle stream) {
  (void)stream;
  return memset((void *)to, value, bytes), lost;
}

int cuStreamCreate(handle *stream, unsigned flags) { return *stream = malloc(8), flags != 1; }
int cuStreamSynchronize(handle stream) { return (void)stream, lost; }
int cuEventCreate(handle *event, unsigned flags) {
  return *event = malloc(sizeof(struct timespec)), (int)flags;
}
int cuEventRecord(handle event, handle stream) {
  return (void)stream, clock_gettime(CLOCK_MONOTONIC, event);
}
int cuEventQuery(handle event) { return (void)event, lost; }
int cuEventSynchronize(handle event) { return (void)event, lost; }
int cuEventElapsedTime(float *ms, handle first, handle last) {
  const struct timespec *a = first, *b = last;
  *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
  return 0;
}

int cuModuleLoadData(handle *module, const void *image) {
  if (memcmp(image, "\x7f" "ELF", 4)) return INVALID_IMAGE;
  *module = calloc(1, sizeof(struct kernel));
  return 0;
}

int cuModuleUnload(handle module) { return free(module), 0; }

int cuModuleGetFunction(handle *function, handle module, const char *name) {
  if (strcmp(name, "twice") && strcmp(name, "astray")) return NOT_FOUND;
  struct kernel *kernel = *function = module;
  snprintf(kernel->name, sizeof kernel->name, "%s", name);
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, handle function) {
  return *value = attribute == 4 ? 10 : 0, !function;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, handle function, int threads, size_t shared) {
  return *blocks = 2048 / threads, !function || shared;
}

int cuLaunchKernel(handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, handle stream, void **parameters,
                   void **extra) {
  const struct kernel *kernel = function;
  (void)stream;
  if (lost) return lost;
  if (parameters || shared || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return 1;
  if (!strcmp(kernel->name, "astray")) return lost = ILLEGAL_ADDRESS, 0;
  struct { const float *x; float *y; int n; } given;
  if (*(size_t *)extra[3] != 20 || grid_y * grid_z * block_y * block_z != 1) return 1;
  memcpy(&given, extra[1], 20);
  for (int i = 0; i < given.n && (unsigned)i < grid_x * block_x; i++) given.y[i] = 2 * given.x[i];
  return 0;
}

/* A graph is not taken down: what is captured has run by then. */
int cuStreamBeginCapture_v2(handle stream, int mode) { return !stream || mode != 1; }
int cuStreamEndCapture(handle stream, handle *graph) { return *graph = malloc(8), !stream; }
int cuGraphInstantiateWithFlags(handle *made, handle graph, unsigned long long flags) {
  return *made = malloc(8), !graph || flags;
}
int cuGraphLaunch(handle graph, handle stream) { return (void)stream, !graph; }
int cuGraphDestroy(handle graph) { return free(graph), 0; }
int cuGraphExecDestroy(handle graph) { return free(graph), 0; }
