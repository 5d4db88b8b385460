// Says for whom a rank waits, from the instruction that it is in.
#ifndef PSRT_CORE_DESCRIBEWAIT_H
#define PSRT_CORE_DESCRIBEWAIT_H

#include "runtime/core/Backend.h"

namespace psrt {

/// "for rank 1 in all_reduce over tp (at model.py:12)". `current`: one of `code`; null where the
/// rank has run them all, and waits for all that it has started.
std::string describeWait(const Program &program, int rank, const Bound *current,
                         const std::vector<Bound> &code);

} // namespace psrt

#endif
