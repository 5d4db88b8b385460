// Parses fields, placements, buffers and addresses.
#include "runtime/core/ProgramFields.h"
#include "runtime/core/CheckProgram.h"

namespace psrt {

const Json &get(const Json &object, const char *key) {
  static const Json none;
  auto it = object.find(key);
  return it == object.end() ? none : *it;
}

std::string getString(const Json &object, const char *key) {
  return getOr<std::string>(object, key, "");
}

Dtype getDtype(const Json &object, const char *key) {
  return parseName<Dtype>(object.at(key), "the field \"" + std::string(key) + "\"");
}

std::vector<int64_t> getInts(const Json &object, const char *key) {
  const Json &list = get(object, key);
  if (!list.is_null() && !list.is_array())
    PSRT_FAIL(BadInput, "\"%s\" is %s, expected a list of integers", key, list.type_name());
  std::vector<int64_t> result;
  for (const Json &value : list)
    result.push_back(toInteger(value));
  return result;
}

std::vector<int> parseAxes(const Json &names, const Mesh &mesh) {
  std::vector<int> result;
  if (!names.is_null())
    for (const Json &name : names)
      result.push_back(mesh.axis(name.get<std::string>()));
  checkAxes(result, mesh);
  return result;
}

Placement parsePlacement(const Json &object, const Mesh &mesh) {
  Placement result;
  result.shape = getInts(object, "shape");
  const Json &factors = get(object, "factors");
  for (size_t d = 0; d < result.shape.size(); ++d) {
    std::vector<Placement::Factor> dim;
    if (!factors.is_null() && d < factors.size())
      for (const Json &factor : factors[d])
        dim.push_back({getInt(factor, "size"), parseAxes(get(factor, "axes"), mesh),
                       getOr(factor, "shard_size", int64_t(0))});
    if (dim.empty())
      dim.push_back({result.shape[d], {}, 0});
    result.factors.push_back(std::move(dim));
  }
  result.partial = parseAxes(get(object, "partial"), mesh);
  checkFactors(result, mesh);
  result.local = result.computeLocal(mesh);
  if (!get(object, "local").is_null() && getInts(object, "local") != result.local)
    PSRT_FAIL(BadInput, "the program's table has a tensor whose \"local\" shape does not match its "
                        "\"factors\"; compile again");
  return result;
}

int64_t toAddress(const Json &value) { return countElements({toInteger(value)}); }

BufferRef parseBuffer(const Json &value) {
  if (value.is_null())
    return {};
  if (value.is_number())
    return {BufferRef::Absolute, toAddress(value)};
  BufferRef result{toInteger<int32_t>(value.at(0)), toAddress(value.at(1))};
  if (result.base < 0)
    PSRT_FAIL(BadInput, "a buffer has base %d; expected at least 0", result.base);
  return result;
}

void checkCoordinates(const Json &value, const Mesh &mesh) {
  int64_t count = value.is_array() ? int64_t(value.size()) : 1;
  if (count != mesh.pipelineSize())
    PSRT_FAIL(
        BadInput,
        "the program's table has values for %lld pipeline coordinates, but its mesh has %lld; "
        "compile again",
        (long long)count, (long long)mesh.pipelineSize());
}

Addresses parseAddresses(const Json &value, const Mesh &mesh) {
  checkCoordinates(value, mesh);
  if (!value.is_array())
    return std::vector<int64_t>{toAddress(value)};
  std::vector<int64_t> result;
  for (const Json &address : value)
    result.push_back(address.is_null() ? Addresses::Absent : toAddress(address));
  return result;
}

int64_t parseCoordinate(const Json &value, const Mesh &mesh) {
  int64_t coordinate = toInteger(value);
  if (coordinate < 0 || coordinate >= mesh.pipelineSize())
    PSRT_FAIL(
        BadInput,
        "the program's table has pipeline coordinate %lld, but its mesh has %lld coordinates; "
        "compile again",
        (long long)coordinate, (long long)mesh.pipelineSize());
  return coordinate;
}

} // namespace psrt
