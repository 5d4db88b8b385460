// Starts this process as one rank of a job, or as the process of all ranks.
#ifndef PSRT_MAIN_LAUNCH_H
#define PSRT_MAIN_LAUNCH_H

#include "runtime/comm/process/ProcessJob.h"
#include <functional>
#include <optional>
#include <string>

namespace psrt {

/// Returns how the processes of a job communicate; nullopt if all ranks are threads of this
/// process. `given` is the value of --comm. Fails if --comm contradicts the target or the launcher
/// of this process.
std::optional<Comm> chooseProcessComm(const ProcessIdentity &identity, std::optional<Comm> given,
                                      int64_t ranks, const Target &target);

/// Prints an error if `prints` is true. Returns the exit status for this error.
int reportFailure(const Status &status, bool prints);

/// Returns the status of the exception that is being handled.
Status currentStatus();

/// Does the same as `reportFailure`, for a process that has not joined its job. Every process
/// prints its own error, since flags or environment may differ between hosts.
int reportBeforeJob(Status status, const ProcessIdentity &identity);

/// Calls `body` as one rank of a job, then leaves the job. Returns the exit status of `body`. A
/// failure of this rank ends the whole job.
int runInJob(ProcessJob &job, const std::function<int()> &body);

} // namespace psrt

#endif
