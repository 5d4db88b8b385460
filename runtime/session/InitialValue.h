// Draws initial values, element by element, of parameters that the model's file does not hold.
#ifndef PSRT_SESSION_INITIALVALUE_H
#define PSRT_SESSION_INITIALVALUE_H

#include "shared/Philox.h"
#include <cmath>
#include <string_view>

namespace psrt {

/// Returns the key of a variable's initial values: Philox's key for step -1 and the op key
/// FNV-1a-64(name), where the name is the variable's first.
inline uint64_t initialKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001B3u;
  return philoxKey(seed, int64_t(hash), -1);
}

/// Returns the initial value of global element `index`: normal (mean `first`, standard deviation
/// `second`, by Box-Muller on words 2 index and 2 index + 1) or uniform in [first, second). The
/// value does not depend on the layout.
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
