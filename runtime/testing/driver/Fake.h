// Declares the functions that the fake driver adds to the driver API. These functions report
// accesses of operations, enqueue work of other fakes and order host threads. libcuda does not have
// these functions.
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
/// Reports the accesses of the next operation that is enqueued on `stream`. With a null stream, the
/// calling host thread makes the accesses now. Copies and memsets need no report.
PSRT_FAKE_EXPORT void psrt_fake_access(psrt::cuda::CUstream stream, const char *name, int count,
                                       const PsrtFakeAccess *accesses);

/// Enqueues run(data) on the stream as a kernel called `name`. Calls release(data) after the last
/// run; a captured operation runs once per launch. `release` may be null and must not call the
/// driver. `accesses` are the accesses of the work, in addition to those reported by
/// psrt_fake_access.
PSRT_FAKE_EXPORT psrt::cuda::CUresult psrt_fake_enqueue(psrt::cuda::CUstream stream,
                                                        const char *name, void (*run)(void *data),
                                                        void *data, void (*release)(void *data),
                                                        int count, const PsrtFakeAccess *accesses);

/// Makes all work that happens before this call also happen before work that follows
/// psrt_fake_acquire(token). The caller is a host thread or a host function of a stream. Barriers
/// of host threads call both functions to report the order that they create.
PSRT_FAKE_EXPORT void psrt_fake_release(const void *token);
PSRT_FAKE_EXPORT void psrt_fake_acquire(const void *token);

/// Returns the number of calls of cuStreamWaitEvent since the last cuInit. $PSRT_FAKE_DROP=K omits
/// the K-th of these waits.
PSRT_FAKE_EXPORT unsigned long long psrt_fake_waits();
}

#endif
