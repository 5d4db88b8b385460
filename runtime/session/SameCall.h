// Ensures that the processes of a job make the same calls of the C API.
#ifndef PSRT_SESSION_SAMECALL_H
#define PSRT_SESSION_SAMECALL_H

#include "psrt/psrt.h"
#include "runtime/core/Backend.h"
#include "runtime/core/Status.h"
#include <optional>

namespace psrt {

/// A call of one process.
struct HostCall {
  std::string name;      ///< what the process does, such as "reads \"weight\""
  uint64_t settings = 0; ///< hash of the scalars and steps that the process has set before
  uint64_t inputs = 0;   ///< hash of the tensors that the call passes
};

/// Returns a hash of names, shapes and elements. Of a tensor larger than
/// 64 KiB, it hashes only 16 blocks of 4 KiB.
uint64_t hashTensors(const psrt_tensor *tensors, size_t count);

/// Compares the calls of all processes of a job. If they differ, fails in every process: a process
/// that waits for another call would wait forever. `problem` is the reason why this process cannot
/// make its call; if a process has a problem, all processes fail with it.
void checkSameCall(Job &job, const HostCall &call, const std::optional<Status> &problem);

} // namespace psrt

#endif
