// Reads fields of a program's JSON table: numbers, dtypes, placements, buffers and addresses.
#ifndef PSRT_CORE_PROGRAMFIELDS_H
#define PSRT_CORE_PROGRAMFIELDS_H

#include "runtime/core/Program.h"
#include "runtime/core/ProgramJson.h"
#include <array>
#include <utility>

namespace psrt {

using Json = nlohmann::json;

/// Returns a field, or null if it is absent.
const Json &get(const Json &object, const char *key);

/// Converts a value of the table. Fails if an integer does not fit `T`.
template <typename T> T convert(const Json &value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return toInteger<T>(value);
  else
    return value.get<T>();
}

/// Returns a field, or `otherwise` if it is absent.
template <typename T> T getOr(const Json &object, const char *key, T otherwise) {
  const Json &value = get(object, key);
  return value.is_null() ? std::move(otherwise) : convert<T>(value);
}

/// Returns an integer field, which must be present.
template <typename T = int64_t> T getInt(const Json &object, const char *key) {
  return toInteger<T>(object.at(key));
}

/// Returns the enum value that a field names, or `otherwise` if the field is absent. Fails on an
/// unknown name and lists the valid names. The message begins with `owner`.
template <typename Enum>
Enum getKind(const Json &object, const char *key, Enum otherwise, const std::string &owner) {
  std::string name = getOr<std::string>(object, key, "");
  return name.empty() ? otherwise : parseName<Enum>(name, owner);
}

/// Parses a text field that lists enum values separated by '+', such as "step+sum". Returns an
/// empty list if the field is absent.
template <typename Enum> std::vector<Enum> getKinds(const Json &table, const char *key) {
  std::vector<Enum> result;
  std::string text = getOr<std::string>(table, key, "");
  for (size_t from = 0, to; from < text.size(); from = to + 1) {
    to = std::min(text.find('+', from), text.size());
    result.push_back(parseName<Enum>(text.substr(from, to - from), "the program"));
  }
  return result;
}

/// Returns a dtype, whose field must be present.
Dtype getDtype(const Json &object, const char *key);

/// Return a field, or an empty value if it is absent.
std::string getString(const Json &object, const char *key);
std::vector<int64_t> getInts(const Json &object, const char *key);

/// Returns a field that must be a list of N integers.
template <size_t N> std::array<int64_t, N> getStrides(const Json &object, const char *key) {
  std::array<int64_t, N> result{};
  std::vector<int64_t> list = getInts(object, key);
  if (list.size() != N)
    PSRT_FAIL(BadInput, "\"%s\" has %zu numbers; expected %zu", key, list.size(), N);
  std::copy(list.begin(), list.end(), result.begin());
  return result;
}

/// Returns the indices of the named mesh axes. Fails if an axis is listed twice. Returns an empty
/// list if `names` is null.
std::vector<int> parseAxes(const Json &names, const Mesh &mesh);
/// Parses "shape", "factors" and "partial" of a tensor. Fails if the field "local" does not match
/// them.
Placement parsePlacement(const Json &object, const Mesh &mesh);
/// Parses an address or offset from 0 to 2^44, so that sums of addresses do not overflow.
int64_t toAddress(const Json &value);
/// Parses a buffer: an arena address, [base, offset], or null.
BufferRef parseBuffer(const Json &value);
/// Checks that `value` is a list with one element per pipeline coordinate, or a single value if the
/// mesh has one coordinate.
void checkCoordinates(const Json &value, const Mesh &mesh);
/// Parses an address, or a list with one address per pipeline coordinate (null: no address).
Addresses parseAddresses(const Json &value, const Mesh &mesh);
/// Parses a coordinate of the mesh's pipeline axis.
int64_t parseCoordinate(const Json &value, const Mesh &mesh);

} // namespace psrt

#endif
