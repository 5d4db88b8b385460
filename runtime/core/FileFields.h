// Reads the JSON of a file that a user gives: failures name the file, the key and the value.
#ifndef PSRT_CORE_FILEFIELDS_H
#define PSRT_CORE_FILEFIELDS_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace psrt {

/// Parses the JSON of a file. Fails with BadInput where it is none, or an object has a key twice:
/// `"PATH" is no KIND: ...`.
nlohmann::json parseJsonFile(std::string_view text, const std::string &path, const char *kind);

/// An object in the JSON of a file. All fail with BadInput: `"PATH": "a"."b" is 1.5; expected ...`.
class FileFields {
public:
  /// `where`: the keys that lead to the object, quoted; empty for the whole file.
  FileFields(const nlohmann::json &object, const std::string &path, std::string where = "");
  bool has(const char *key) const { return object.contains(key); }
  /// Fails unless an integer of [least, most].
  int64_t integer(const std::string &key, int64_t least = INT64_MIN,
                  int64_t most = INT64_MAX) const;
  /// Any unsigned number of 64 bits.
  uint64_t number(const std::string &key) const;
  bool boolean(const std::string &key) const;
  std::string text(const std::string &key) const;
  /// Integers of at least `least`.
  std::vector<int64_t> integers(const std::string &key, int64_t least) const;
  const nlohmann::json &list(const std::string &key) const;
  FileFields fields(const std::string &key) const;
  FileFields item(const std::string &key, size_t index) const;
  std::vector<std::string> keys() const;
  /// Fails where the object has another key: nothing would read it.
  void allow(std::initializer_list<const char *> names) const;
  /// Fails with the value of `key` and with the value that is expected.
  [[noreturn]] void refuse(const std::string &key, const std::string &expected) const;

private:
  const nlohmann::json &get(const std::string &key) const;
  std::string nameOf(const std::string &key) const;
  const nlohmann::json &object;
  std::string path, where;
};

} // namespace psrt

#endif
