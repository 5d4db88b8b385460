// Describes which ranks a rank is waiting for, given the instruction that it is running.
#ifndef PSRT_CORE_DESCRIBEWAIT_H
#define PSRT_CORE_DESCRIBEWAIT_H

#include "runtime/core/Backend.h"

namespace psrt {

/// Returns "for rank 1 in all_reduce over tp (at model.py:12)". `current` is an element of `code`,
/// or null if the rank has run all instructions and waits for its asynchronous work.
std::string describeWait(const Program &program, int rank, const Bound *current,
                         const std::vector<Bound> &code);

} // namespace psrt

#endif
