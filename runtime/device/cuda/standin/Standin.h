// What the stand-in driver exports beside the driver API: what operations touch, work of other
// stand-ins, and the order that host threads keep among themselves. None of it exists in libcuda.
#ifndef PSRT_DEVICE_CUDA_STANDIN_STANDIN_H
#define PSRT_DEVICE_CUDA_STANDIN_STANDIN_H

#include "runtime/device/cuda/DriverApi.h"

#define PSRT_STANDIN_EXPORT __attribute__((visibility("default")))

/// Bytes [begin, end) that an operation reads or, with `writes`, reads and writes.
struct PsrtStandinAccess {
  psrt::cuda::CUdeviceptr begin, end;
  int writes;
};

extern "C" {
/// Names what the next operation that this thread enqueues on `stream` touches. A null stream: the
/// calling host thread itself touches it, now. Copies and memsets need no announcement.
PSRT_STANDIN_EXPORT void psrt_standin_access(psrt::cuda::CUstream stream, const char *what,
                                             int count, const PsrtStandinAccess *accesses);

/// Enqueues run(data) on the stream as a kernel called `name`; release(data) when it can run no
/// more (a captured operation runs once a launch). `release` may be null and may not call the
/// driver. `accesses`: what the work touches, beside what is announced.
PSRT_STANDIN_EXPORT psrt::cuda::CUresult
psrt_standin_enqueue(psrt::cuda::CUstream stream, const char *name, void (*run)(void *data),
                     void *data, void (*release)(void *data), int count,
                     const PsrtStandinAccess *accesses);

/// All that the calling host thread (or host function of a stream) comes after also comes before
/// what follows psrt_standin_acquire(token): how a barrier of host threads shows its order.
PSRT_STANDIN_EXPORT void psrt_standin_release(const void *token);
PSRT_STANDIN_EXPORT void psrt_standin_acquire(const void *token);

/// How many waits were asked for since the last cuInit: what $PSRT_STANDIN_DROP counts.
PSRT_STANDIN_EXPORT unsigned long long psrt_standin_waits();
}

#endif
