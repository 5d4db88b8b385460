// Declares the functions that only the fake driver has, beside the driver API. They report the
// accesses of operations, enqueue work of other fakes, and order host threads. libcuda has none.
#ifndef PSRT_TESTING_DRIVER_FAKE_H
#define PSRT_TESTING_DRIVER_FAKE_H

#include "runtime/device/cuda/DriverApi.h"

#define PSRT_FAKE_EXPORT __attribute__((visibility("default")))

/// Bytes [begin, end) that an operation reads or, with `writes`, reads and writes.
struct PsrtFakeAccess {
  psrt::cuda::CUdeviceptr begin, end;
  int writes;
};

extern "C" {
/// Names what the next operation that this thread enqueues on `stream` touches. A null stream: the
/// calling host thread itself touches it, now. Copies and memsets need no announcement.
PSRT_FAKE_EXPORT void psrt_fake_access(psrt::cuda::CUstream stream, const char *what, int count,
                                       const PsrtFakeAccess *accesses);

/// Enqueues run(data) on the stream as a kernel called `name`; release(data) when it can run no
/// more (a captured operation runs once a launch). `release` may be null and may not call the
/// driver. `accesses`: what the work touches, beside what is announced.
PSRT_FAKE_EXPORT psrt::cuda::CUresult psrt_fake_enqueue(psrt::cuda::CUstream stream,
                                                        const char *name, void (*run)(void *data),
                                                        void *data, void (*release)(void *data),
                                                        int count, const PsrtFakeAccess *accesses);

/// All that the calling host thread (or host function of a stream) comes after also comes before
/// what follows psrt_fake_acquire(token): how a barrier of host threads shows its order.
PSRT_FAKE_EXPORT void psrt_fake_release(const void *token);
PSRT_FAKE_EXPORT void psrt_fake_acquire(const void *token);

/// How many waits were asked for since the last cuInit: what $PSRT_FAKE_DROP counts.
PSRT_FAKE_EXPORT unsigned long long psrt_fake_waits();
}

#endif
