// Draws the initial values of parameters that the model's file does not contain.
#ifndef PSRT_SESSION_INITIALVALUE_H
#define PSRT_SESSION_INITIALVALUE_H

#include "shared/Philox.h"
#include <cmath>
#include <string_view>

namespace psrt {

/// Returns the Philox key of a variable's initial values. The key depends on the seed, step -1, and
/// the 64-bit FNV-1a hash of the variable's first name in place of the key of an op.
inline uint64_t initialKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001B3u;
  return philoxKey(seed, int64_t(hash), -1);
}

/// Returns the initial value of global element `index`, which does not depend on the sharding.
/// Normal: mean `first` and standard deviation `second`, by Box-Muller on words 2 index and 2 index
/// + 1. Else uniform in [first, second).
inline float drawInitial(bool normal, uint64_t key, uint64_t index, double first, double second) {
  double u = philoxWord(key, 2 * index) * 0x1p-32;
  if (!normal)
    return float(first + (second - first) * u);
  double v = philoxWord(key, 2 * index + 1) * 0x1p-32;
  double radius = std::sqrt(-2 * std::log(u + 0x1p-33));
  return float(first + second * radius * std::cos(6.283185307179586 * v));
}

} // namespace psrt

#endif
