// Computes a keyed permutation index by index, so that every layout and every resumed run reads the
// same order.
#ifndef PSRT_DATA_SHUFFLE_H
#define PSRT_DATA_SHUFFLE_H

#include <cstdint>

namespace psrt {

/// Returns the position of `index` in a permutation of [0, count) keyed by (seed, epoch). The
/// permutation is a 6-round Feistel network over the next even number of bits, applied repeatedly
/// until the result is below `count` (cycle walking; Black and Rogaway, 2002).
int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

} // namespace psrt

#endif
