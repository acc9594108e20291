/* As much of NCCL as the workbench calls, over the host's memory: for tests where no GPU is.
   A collective waits for the threads of all ranks. It notes each call, and fails on purpose: device 77
   cannot be connected, 13 elements fail at once, and 17 after the call, as on a device. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 22706
#endif
enum { MOST = 8, INTERNAL = 3, INVALID = 4, USAGE = 5, REMOTE = 6 };
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

struct world {
  int ranks, arrived, round, aborted, failed, left;
  const void *from[MOST];
  void *to[MOST];
};
struct comm { struct world *world; int rank, device; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static char notes[1 << 16];
static int alive;

const char *fake_notes(void) { return notes; }
int fake_alive(void) { return alive; }

static void note(const char *what, size_t count, int type, int op, struct comm *comm, void *stream) {
  size_t used = strlen(notes);
  snprintf(notes + used, sizeof notes - used, "%s %zu type %d op %d device %d stream %zu\n", what, count,
           type, op, comm->device, (size_t)stream);
}

int ncclGetVersion(int *version) { return *version = VERSION, 0; }
const char *ncclGetErrorString(int result) {
  return result == 1 ? "unhandled cuda error" : result == USAGE ? "invalid usage" : "some other error";
}
#ifndef OLD
const char *ncclGetLastError(void *comm) { return comm ? "" : "the last words of the library"; }
int ncclCommGetAsyncError(struct comm *comm, int *result) {
  return *result = comm->world->failed ? INTERNAL : 7 /* in progress */, 0;
}
#endif

int ncclCommInitAll(struct comm **comms, int count, const int *devices) {
  if (count < 1 || count > MOST) return INVALID;
  for (int k = 0; k < count; k++) {
    if (devices[k] == 77) return 1;
    for (int j = 0; j < k; j++)
      if (devices[j] == devices[k]) return USAGE;
  }
  struct world *world = calloc(1, sizeof *world);
  world->ranks = world->left = count;
  for (int k = 0; k < count; k++) {
    comms[k] = malloc(sizeof **comms);
    *comms[k] = (struct comm){world, k, devices[k]};
    alive++;
  }
  return 0;
}

int ncclCommDestroy(struct comm *comm) {
  pthread_mutex_lock(&lock);
  alive--;
  if (!--comm->world->left) free(comm->world);
  pthread_mutex_unlock(&lock);
  return free(comm), 0;
}

int ncclCommAbort(struct comm *comm) {
  pthread_mutex_lock(&lock);
  comm->world->aborted = 1, alive--;
  pthread_cond_broadcast(&met);
  pthread_mutex_unlock(&lock);
  return 0;
}

#define COMBINE(T) for (size_t i = 0; i < count; i++) { \
    T x = ((const T *)world->from[0])[first + i]; \
    for (int r = 1; r < world->ranks; r++) { \
      T y = ((const T *)world->from[r])[first + i]; \
      x = op == 0 ? x + y : op == 1 ? x * y : op == 2 ? (x > y ? x : y) : (x < y ? x : y); \
    } \
    ((T *)to)[i] = x; \
  }

static int combine(struct world *world, void *to, size_t first, size_t count, int type, int op) {
  if (type == 7) COMBINE(float)
  else if (type == 8) COMBINE(double)
  else if (type == 2) COMBINE(int32_t)
  else if (type == 4) COMBINE(int64_t)
  else if (type == 1) COMBINE(uint8_t)
  else return INVALID;
  return 0;
}

/* `how` is 0 for a reduction, 1 for a gathering, 2 for a scattering. */
static int all(int how, const void *from, void *to, size_t count, int type, int op, struct comm *comm) {
  struct world *world = comm->world;
  if (!from || !to || type < 0 || type > 9) return INVALID;
  pthread_mutex_lock(&lock);
  int round = world->round, result = 0;
  world->from[comm->rank] = from, world->to[comm->rank] = to;
  if (++world->arrived == world->ranks) {
    for (int r = 0; r < world->ranks && !result; r++) {
      size_t bytes = count * sizes[type];
      if (how == 1)
        for (int k = 0; k < world->ranks; k++) memcpy((char *)world->to[r] + k * bytes, world->from[k], bytes);
      else
        result = combine(world, world->to[r], how == 2 ? r * count : 0, count, type, op);
    }
    world->arrived = 0, world->round++;
    pthread_cond_broadcast(&met);
  }
  while (world->round == round && !world->aborted) pthread_cond_wait(&met, &lock);
  if (world->aborted) result = REMOTE;
  pthread_mutex_unlock(&lock);
  return result;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *comm, void *stream) {
  pthread_mutex_lock(&lock);
  note("all_reduce", count, type, op, comm, stream);
  pthread_mutex_unlock(&lock);
  if (count == 13) return INVALID;
  if (count == 17) return comm->world->failed = 1, 0;
  return all(0, from, to, count, type, op, comm);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *comm, void *stream) {
  pthread_mutex_lock(&lock);
  note("all_gather", count, type, -1, comm, stream);
  pthread_mutex_unlock(&lock);
  return all(1, from, to, count, type, 0, comm);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, struct comm *comm,
                      void *stream) {
  pthread_mutex_lock(&lock);
  note("reduce_scatter", count, type, op, comm, stream);
  pthread_mutex_unlock(&lock);
  return all(2, from, to, count, type, op, comm);
}
