// Implements the permutation as a Feistel network.
#include "runtime/data/Shuffle.h"
#include "shared/Philox.h"

namespace psrt {

int64_t shuffledIndex(int64_t index, int64_t count, uint64_t seed, int64_t epoch) {
  if (count < 2)
    return index;
  int half = 1;
  while ((uint64_t(1) << (2 * half)) < uint64_t(count))
    ++half;
  uint64_t mask = (uint64_t(1) << half) - 1, key = mix(seed + mix(uint64_t(epoch)));
  uint64_t x = uint64_t(index);
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (mix(key ^ mix(right ^ round << 56)) & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= uint64_t(count));
  return int64_t(x);
}

} // namespace psrt
