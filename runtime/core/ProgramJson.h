// Reads the integers of a JSON table. A number that does not fit its type is an error.
#ifndef PSRT_CORE_PROGRAMJSON_H
#define PSRT_CORE_PROGRAMJSON_H

#include "runtime/core/Status.h"
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace psrt {

/// The largest number of elements of a tensor. Its bytes then fit into 64 bits.
inline constexpr int64_t kMaxElements = int64_t(1) << 44;

/// Converts to an integer that fits `Int`. Throws nlohmann's type error for fractions and
/// out-of-range numbers, which `get` would convert silently.
template <typename Int = int64_t, typename Json> Int toInteger(const Json &value) {
  bool fits = value.is_number_integer();
  if (value.is_number_unsigned())
    fits = value.template get<uint64_t>() <= uint64_t(std::numeric_limits<Int>::max());
  else if (fits)
    fits = value.template get<int64_t>() >= int64_t(std::numeric_limits<Int>::min()) &&
           value.template get<int64_t>() <= int64_t(std::numeric_limits<Int>::max());
  if (!fits)
    throw Json::type_error::create(
        302,
        format("expected an integer of at most %zu bytes, got %s", sizeof(Int),
               value.is_number() ? value.dump().c_str() : value.type_name()),
        &value);
  return Int(value.template get<int64_t>());
}

/// Returns the product of sizes, or nullopt if a size is negative or the product exceeds
/// `kMaxElements`.
inline std::optional<int64_t> tryCountElements(const std::vector<int64_t> &sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > kMaxElements)
      return std::nullopt;
  return count;
}

/// Returns the product of sizes. Fails where `tryCountElements` returns nullopt.
inline int64_t countElements(const std::vector<int64_t> &sizes) {
  if (std::optional<int64_t> count = tryCountElements(sizes))
    return *count;
  PSRT_FAIL(BadInput, "the program's table has a size that is negative or above 2^44; compile the "
                      "model again");
}

} // namespace psrt

#endif
