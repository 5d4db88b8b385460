// Assigns offsets in one arena to buffers with lifetimes.
#ifndef PARASHARD_LIB_MEMORY_FIRSTFIT_H
#define PARASHARD_LIB_MEMORY_FIRSTFIT_H

#include "lib/Memory/Lifetime.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace parashard::memory {

struct MemoryPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// The alignment of every buffer in bytes: the size of a cache line and of the widest vector.
inline constexpr int64_t kBufferAlignment = 64;

/// Returns the most bytes that are live at once, with each buffer rounded up to the alignment.
/// Every plan needs at least these bytes.
int64_t getLargestSum(llvm::ArrayRef<Lifetime> buffers);

/// Places buffers in order of birth, each at the lowest offset at which it overlaps no live buffer.
/// If several buffers are born at the same time, larger ones come first. If the plan exceeds
/// `getLargestSum` by more than 0.5 %, also tries the orders of death, size, area (size x duration)
/// and duration, and up to 2000 orders of a local search. With many buffers, skips the slower
/// orders.
///
/// Example: buffers of 64, 64 and 128 bytes with lifetimes [0,1], [1,2] and [2,3] get the offsets
/// 0, 64 and 128 by birth (256 bytes), and 0, 128 and 0 by death (192 bytes).
MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers);

} // namespace parashard::memory

#endif
