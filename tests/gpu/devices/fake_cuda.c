/* The fake device of HIP's tests as the driver library that cuda-bindings opens: it asks for each function
   by name, and gives kernels their arguments one by one. */
#define _GNU_SOURCE
#include <dlfcn.h>

#define cuLaunchKernel launch_with_packed_arguments
#include "../hip_over_cuda/fake_driver.c"
#undef cuLaunchKernel

int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuMemcpyHtoDAsync_v2(address to, address from, size_t bytes, handle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(address to, address from, size_t bytes, handle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, handle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer) {
  (void)attributes, (void)pointer;
  return *(unsigned *)values[0] = 0, count != 1; /* no memory is pinned */
}
int cuFuncSetAttribute(handle function, int attribute, int value) {
  return !function || attribute != 8 || value > 65536;
}

int cuLaunchKernel(handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, handle stream, void **parameters,
                   void **extra) {
  const struct kernel *kernel = function;
  (void)stream;
  if (lost) return lost;
  if (extra || shared > 65536 || grid_y * grid_z * block_y * block_z != 1) return 1;
  if (!strcmp(kernel->name, "astray")) return lost = ILLEGAL_ADDRESS, 0;
  const float *x = *(const float **)parameters[0];
  float *y = *(float **)parameters[1];
  int n = *(int *)parameters[2];
  for (int i = 0; i < n && (unsigned)i < grid_x * block_x; i++) y[i] = 2 * x[i];
  return 0;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
  static const char *endings[] = {"_v2", "", "WithFlags"};
  char full[128];
  (void)version, (void)flags;
  void *self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  *found = NULL;
  for (int k = 0; k < 3 && self && !*found; k++) {
    snprintf(full, sizeof full, "%s%s", name, endings[k]);
    *found = dlsym(self, full);
  }
  if (status) *status = !*found;
  return *found ? 0 : NOT_FOUND;
}
