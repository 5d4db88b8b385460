// Initial values of parameters that the model's file does not hold: drawn per element.
#ifndef PSRT_SESSION_INITIALVALUE_H
#define PSRT_SESSION_INITIALVALUE_H

#include "shared/Philox.h"
#include <cmath>
#include <string_view>

namespace psrt {

/// The key of a variable's initial values: Philox's key for op key = FNV-1a 64 of its first name,
/// step -1.
inline uint64_t initialKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001B3u;
  return philoxKey(seed, int64_t(hash), -1);
}

/// The initial value of global element `index`: normal (mean `first`, standard deviation `second`,
/// by Box-Muller on words 2 index and 2 index + 1) or uniform in [first, second). Any layout draws
/// the same.
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
