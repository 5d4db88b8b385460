// Defines how long a buffer is in use.
#ifndef PARASHARD_LIB_MEMORY_LIFETIME_H
#define PARASHARD_LIB_MEMORY_LIFETIME_H

#include <cstdint>

namespace parashard::memory {

/// A buffer of `bytes` that is in use from time `begin` to time `end`, inclusive.
struct Lifetime {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
};

} // namespace parashard::memory

#endif
