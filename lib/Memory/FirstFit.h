// Places buffers with lifetimes in one arena.
#ifndef PARASHARD_LIB_MEMORY_FIRSTFIT_H
#define PARASHARD_LIB_MEMORY_FIRSTFIT_H

#include "lib/Memory/Lifetime.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace parashard::memory {

/// Offset of each buffer, and the total bytes.
struct MemoryPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Alignment of every buffer: a cache line and the widest vector.
inline constexpr int64_t kBufferAlignment = 64;

/// Returns the largest sum of bytes that are live at once, with each buffer rounded up to the
/// alignment. No plan can be smaller.
int64_t getLargestSum(llvm::ArrayRef<Lifetime> buffers);

/// Gives each buffer the lowest offset at which it overlaps no placed buffer that is live at the
/// same time. Places buffers in order of birth (larger ones first among equals). If the plan
/// exceeds the largest sum by more than half a percent, also tries the orders of death, size,
/// duration and area (size times duration). From the smallest plan, a search tries some hundred
/// further orders until the plan is below that limit, unless there are too many buffers.
/// Example: buffers of 64, 64 and 128 bytes with lifetimes [0,1], [1,2] and [2,3] get the offsets
/// 0, 64 and 128 by birth; the largest sum is 192.
MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers);

} // namespace parashard::memory

#endif
