// Declares what the two parts of the C API, jobs and programs, share.
#ifndef PSRT_SESSION_JOBAPI_H
#define PSRT_SESSION_JOBAPI_H

#include "psrt/psrt.h"
#include "runtime/comm/process/ProcessJob.h"
#include <memory>
#include <string>

namespace psrt {

/// Calls body(), and converts an exception into a status and the message `error`.
template <typename Body> psrt_status guard(std::string &error, Body &&body) {
  try {
    error.clear();
    body();
    return PSRT_OK;
  } catch (const Error &failure) {
    error = failure.what();
    return psrt_status(failure.status.code);
  } catch (const std::exception &failure) {
    error = failure.what();
    return PSRT_FAILED;
  }
}

/// Returns the job of a handle. Returns null for a null handle, and if the process is alone. Fails
/// if the process has not joined, or has left.
std::shared_ptr<ProcessJob> findJob(const psrt_job *job);

} // namespace psrt

#endif
