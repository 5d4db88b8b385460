// Checks the contents of a file's JSON.
#include "runtime/core/FileFields.h"
#include "runtime/core/Status.h"
#include "runtime/core/StrictJson.h"
#include <algorithm>

namespace psrt {

using Json = nlohmann::json;

static std::string quote(const std::string &text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string describeJsonError(const std::exception &error) {
  std::string text = error.what();
  size_t end = text.starts_with("[json.exception.") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

Json parseJsonFile(std::string_view text, const std::string &path, const char *kind,
                   const char *remedy) {
  if (text.starts_with("\xEF\xBB\xBF"))
    PSRT_FAIL(BadInput,
              "\"%s\" is not a valid %s: it begins with a byte order mark; save it as plain UTF-8",
              path.c_str(), kind);
  try {
    return parseStrictly<Json>(text.begin(), text.end());
  } catch (const Json::exception &error) {
    PSRT_FAIL(BadInput, "\"%s\" is not a valid %s: %s%s", path.c_str(), kind,
              describeJsonError(error).c_str(), remedy);
  }
}

FileFields::FileFields(const Json &object, const std::string &path, std::string where)
    : object(object), path(path), where(std::move(where)) {
  if (!object.is_object())
    PSRT_FAIL(BadInput, "\"%s\": %s is %s; expected an object", path.c_str(),
              this->where.empty() ? "the top-level value" : this->where.c_str(),
              object.type_name());
}

std::string FileFields::nameOf(const std::string &key) const {
  return where + (where.empty() ? "" : ".") + quote(key);
}

const Json &FileFields::get(const std::string &key) const {
  auto found = object.find(key);
  if (found == object.end())
    PSRT_FAIL(BadInput, "\"%s\" has no %s: the file is damaged or from another program",
              path.c_str(), nameOf(key).c_str());
  return *found;
}

/// Returns a value as text for a message. For an object, a list or a long text, returns only its
/// type.
static std::string describeValue(const Json &value) {
  if (value.is_structured())
    return value.type_name();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 80 ? value.type_name() : text;
}

void FileFields::refuse(const std::string &key, const std::string &expected) const {
  PSRT_FAIL(BadInput, "\"%s\": %s is %s; expected %s", path.c_str(), nameOf(key).c_str(),
            describeValue(get(key)).c_str(), expected.c_str());
}

/// Returns whether a value is an integer in [least, most].
static bool isWithin(const Json &value, int64_t least, int64_t most) {
  if (!value.is_number_integer())
    return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))
    return false;
  return value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

int64_t FileFields::integer(const std::string &key, int64_t least, int64_t most) const {
  const Json &value = get(key);
  if (!isWithin(value, least, most))
    refuse(key, format("an integer from %lld to %lld", (long long)least, (long long)most));
  return value.get<int64_t>();
}

uint64_t FileFields::number(const std::string &key) const {
  const Json &value = get(key);
  if (!value.is_number_unsigned())
    refuse(key, "an integer from 0 to 18446744073709551615");
  return value.get<uint64_t>();
}

bool FileFields::boolean(const std::string &key) const {
  if (!get(key).is_boolean())
    refuse(key, "true or false");
  return get(key).get<bool>();
}

std::string FileFields::text(const std::string &key) const {
  if (!get(key).is_string())
    refuse(key, "a string");
  return get(key).get<std::string>();
}

const Json &FileFields::list(const std::string &key) const {
  if (!get(key).is_array())
    refuse(key, "a list");
  return get(key);
}

std::vector<int64_t> FileFields::integers(const std::string &key, int64_t least) const {
  std::vector<int64_t> result;
  for (const Json &value : list(key)) {
    if (!isWithin(value, least, INT64_MAX))
      PSRT_FAIL(BadInput, "\"%s\": %s has the element %s; expected integers of at least %lld",
                path.c_str(), nameOf(key).c_str(), describeValue(value).c_str(), (long long)least);
    result.push_back(value.get<int64_t>());
  }
  return result;
}

FileFields FileFields::fields(const std::string &key) const {
  return FileFields(get(key), path, nameOf(key));
}

FileFields FileFields::item(const std::string &key, size_t index) const {
  return FileFields(list(key).at(index), path, nameOf(key) + "[" + std::to_string(index) + "]");
}

std::vector<std::string> FileFields::keys() const {
  std::vector<std::string> result;
  for (const auto &entry : object.items())
    result.push_back(entry.key());
  return result;
}

void FileFields::allow(std::initializer_list<const char *> names) const {
  for (const std::string &key : keys()) {
    if (std::find(names.begin(), names.end(), key) != names.end())
      continue;
    std::string expected;
    for (const char *name : names)
      expected.append(expected.empty() ? "" : ", ").append(name);
    PSRT_FAIL(BadInput, "\"%s\" has the unknown key %s; expected %s", path.c_str(),
              nameOf(key).c_str(), expected.c_str());
  }
}

} // namespace psrt
