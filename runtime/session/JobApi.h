// Declares what the two parts of the C API, jobs and programs, share.
#ifndef PSRT_SESSION_JOBAPI_H
#define PSRT_SESSION_JOBAPI_H

#include "psrt/psrt.h"
#include "runtime/comm/process/ProcessJob.h"
#include <memory>

namespace psrt {

/// Returns the job of a handle. Returns null for a null handle, and if the process is alone. Fails
/// if the process has not joined, or has left.
std::shared_ptr<ProcessJob> findJob(const psrt_job *job);

} // namespace psrt

#endif
