// Reading fields of a program's table, and the pieces that its sections and its instructions share.
#ifndef PSRT_CORE_PROGRAMFIELDS_H
#define PSRT_CORE_PROGRAMFIELDS_H

#include "runtime/core/Program.h"
#include "runtime/core/ProgramJson.h"
#include <array>

namespace psrt {

using Json = nlohmann::json;

/// The field, or null when absent.
const Json &get(const Json &object, const char *key);

/// A value of the table; integers must fit.
template <typename T> T convert(const Json &value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return toInteger<T>(value);
  else
    return value.get<T>();
}

/// A field that may be absent.
template <typename T> T getOr(const Json &object, const char *key, T otherwise) {
  const Json &value = get(object, key);
  return value.is_null() ? otherwise : convert<T>(value);
}

/// A field that must be there.
template <typename T = int64_t> T getInt(const Json &object, const char *key) {
  return toInteger<T>(object.at(key));
}

/// Empty when absent.
std::string getString(const Json &object, const char *key);
std::vector<int64_t> getInts(const Json &object, const char *key);

/// As many numbers as are needed, or a failure.
template <size_t N> std::array<int64_t, N> getStrides(const Json &object, const char *key) {
  std::array<int64_t, N> result{};
  std::vector<int64_t> list = getInts(object, key);
  if (list.size() != N)
    PSRT_FAIL(BadInput, "\"%s\" has %zu numbers, %zu are needed", key, list.size(), N);
  std::copy(list.begin(), list.end(), result.begin());
  return result;
}

/// Mesh axes by their names, none twice; none when absent.
std::vector<int> parseAxes(const Json &names, const Mesh &mesh);
/// "shape", "factors" and "partial" of a tensor; "local" must be what they give.
Placement parsePlacement(const Json &object, const Mesh &mesh);
/// Addresses and offsets can be added up.
int64_t toAddress(const Json &value);
/// An address, [base, offset], or null.
BufferRef parseBuffer(const Json &value);
/// What a table has for each pipeline coordinate: a list, or one value where there is one
/// coordinate.
void checkCoordinates(const Json &value, const Mesh &mesh);
/// An address, or a list with null where a coordinate has none.
Addresses parseAddresses(const Json &value, const Mesh &mesh);
/// A coordinate of the mesh's pipeline axis.
int64_t parseCoordinate(const Json &value, const Mesh &mesh);

} // namespace psrt

#endif
