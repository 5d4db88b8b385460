// Implements the counter-based random numbers of all parts of Parashard (docs/program-format.md,
// "Random numbers").
#ifndef PARASHARD_SHARED_PHILOX_H
#define PARASHARD_SHARED_PHILOX_H

#include <cstdint>

namespace psrt {

/// Returns the output of splitmix64 for the state `x` (Steele et al., OOPSLA 2014).
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Returns the 64-bit key of one op at one step.
inline uint64_t philoxKey(uint64_t seed, int64_t opKey, int64_t step) {
  return mix(seed + mix(uint64_t(opKey) + mix(uint64_t(step))));
}

/// Returns word 0 of Philox4x32-10 (Salmon et al., SC 2011) for a 64-bit key and the counter (lo,
/// hi, 0, 0), where lo and hi are the halves of `counter`.
inline uint32_t philoxWord(uint64_t key, uint64_t counter) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
#ifdef __NVPTX__
#pragma clang loop unroll(                                                                         \
    disable) // kernels contain many copies of this loop, which would take registers if unrolled
#endif
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

/// Returns a uniform float in [0, 1).
inline float philoxUniform(uint64_t key, uint64_t counter) {
  return float(philoxWord(key, counter) >> 8) * 0x1p-24f;
}

} // namespace psrt

#endif
