// Places buffers with lifetimes into one arena.
#ifndef PARASHARD_LIB_MEMORY_FIRSTFIT_H
#define PARASHARD_LIB_MEMORY_FIRSTFIT_H

#include "lib/Memory/Lifetime.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace parashard {

/// Where each buffer lies, and the bytes of the whole.
struct MemoryPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Alignment of every buffer: a cache line, and the widest vector.
inline constexpr int64_t kBufferAlignment = 64;

/// The most bytes that are alive at once, each buffer rounded up to the alignment: no plan is
/// smaller.
int64_t getLargestSum(llvm::ArrayRef<Lifetime> buffers);

/// Gives each buffer the lowest offset at which it overlaps no buffer alive at the same time that
/// was placed before. In order of birth (the larger first where they are born together); where that
/// takes more than half a percent over the largest sum, also in order of death, of size, of
/// the time they stay, and of both: the smallest plan, from which some hundred orders more are
/// tried while it is not below that, and buffers are not too many.
MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers);

} // namespace parashard

#endif
