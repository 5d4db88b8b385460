// Computes a random permutation one index at a time. The order of samples is the same for every
// mesh and after a resume.
#ifndef PSRT_DATA_SHUFFLE_H
#define PSRT_DATA_SHUFFLE_H

#include <cstdint>

namespace psrt {

/// Returns element `index` of a permutation of [0, count), which depends on `seed` and `epoch`. The
/// permutation is a 6-round Feistel network over the smallest even number of bits that represents
/// count - 1. The network is applied repeatedly until the result is below `count` (cycle walking;
/// Black and Rogaway, 2002).
int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

} // namespace psrt

#endif
