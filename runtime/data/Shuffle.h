// A keyed permutation computed per index, so that every layout and every resume reads the same
// order.
#ifndef PSRT_DATA_SHUFFLE_H
#define PSRT_DATA_SHUFFLE_H

#include <cstdint>

namespace psrt {

/// The place of `index` in a permutation of [0, count) keyed by (seed, epoch): a Feistel network of
/// 6 rounds over the next even number of bits, walked until it lands inside (Black and Rogaway,
/// 2002).
int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

} // namespace psrt

#endif
