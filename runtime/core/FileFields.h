// Reads the JSON of a user's file. Errors contain the file, the key and the value.
#ifndef PSRT_CORE_FILEFIELDS_H
#define PSRT_CORE_FILEFIELDS_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace psrt {

/// Parses the JSON of a file. Fails with BadInput if the JSON is invalid, or if an object has a key
/// twice: `"PATH" is not a valid KIND: ...`. `remedy` ends the message, such as "; export it
/// again".
nlohmann::json parseJsonFile(std::string_view text, const std::string &path, const char *kind,
                             const char *remedy = "");

/// An object in the JSON of a file. Reading a missing or invalid field fails with BadInput:
/// `"PATH": "a"."b" is 1.5; expected ...`.
class FileFields {
public:
  /// `where` is the path of keys to the object, such as `"a"."b"`. The path is empty for the
  /// top-level object of the file.
  FileFields(const nlohmann::json &object, const std::string &path, std::string where = "");
  bool has(const char *key) const { return object.contains(key); }
  /// Returns an integer. Fails unless it is in [least, most].
  int64_t integer(const std::string &key, int64_t least = INT64_MIN,
                  int64_t most = INT64_MAX) const;
  /// Returns any unsigned 64-bit number.
  uint64_t number(const std::string &key) const;
  bool boolean(const std::string &key) const;
  std::string text(const std::string &key) const;
  /// Returns a list of integers of at least `least`.
  std::vector<int64_t> integers(const std::string &key, int64_t least) const;
  const nlohmann::json &list(const std::string &key) const;
  FileFields fields(const std::string &key) const;
  FileFields item(const std::string &key, size_t index) const;
  std::vector<std::string> keys() const;
  /// Fails if the object has a key that is not in `names`.
  void allow(std::initializer_list<const char *> names) const;
  /// Fails with a message that contains the value of `key` and the expected value.
  [[noreturn]] void refuse(const std::string &key, const std::string &expected) const;

private:
  const nlohmann::json &get(const std::string &key) const;
  std::string nameOf(const std::string &key) const;
  const nlohmann::json &object;
  std::string path, where;
};

} // namespace psrt

#endif
