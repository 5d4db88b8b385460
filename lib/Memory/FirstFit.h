// Places buffers with lifetimes into one arena: first fit in order of birth.
#ifndef PARASHARD_LIB_MEMORY_FIRSTFIT_H
#define PARASHARD_LIB_MEMORY_FIRSTFIT_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace parashard {

/// A buffer of `bytes` that is in use from time `begin` to time `end`, both included.
struct Lifetime {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
};

/// Where each buffer lies, and the bytes of the whole.
struct MemoryPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Alignment of every buffer: a cache line, and the widest vector.
inline constexpr int64_t kBufferAlignment = 64;

/// Gives each buffer, in order of birth (the larger first where they are born together), the lowest
/// offset at which it overlaps no buffer alive at the same time.
MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers);

} // namespace parashard

#endif
