// Reads the flags of a run file: the JSON file of --config.
#include "runtime/main/Config.h"
#include "runtime/core/StrictJson.h"
#include "shared/NearestNames.h"
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace psrt {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string &path, const std::string &message) {
  throw CLI::ValidationError("--config", "\"" + path + "\": " + message);
}

/// Returns a value as text for a message. For an array or object, which may be deeply nested,
/// returns only its type.
std::string describe(const Json &value) {
  return value.is_array() ? "an array" : value.is_object() ? "an object" : value.dump();
}

/// Converts a value, or an item of a list, to the text of a command-line argument.
std::string toText(const std::string &path, const std::string &key, const Json &value,
                   bool isItem) {
  if (value.is_string() && value.get<std::string>().empty())
    refuse(path, isItem ? "an item of \"" + key + "\" is empty; remove the item, or give a value"
                        : "\"" + key + "\" is empty; omit it, or give a value");
  if (value.is_string() && value.get<std::string>().find('\0') != std::string::npos)
    refuse(path,
           "\"" + key + "\" contains a NUL byte, which ends a command-line argument; remove it");
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_number())
    return value.dump();
  if (isItem)
    refuse(path,
           "an item of \"" + key + "\" is " + describe(value) + "; expected a string or a number");
  refuse(path, "\"" + key + "\" is " + describe(value) + "; expected a string, a number or a list");
}

/// Appends the arguments for one key of the file: `{"data": ["a", "b"]}` gives `--data a --data b`.
void append(std::vector<std::string> &arguments, const std::string &path, const std::string &key,
            const Json &value, bool isSwitch) {
  if (isSwitch) {
    if (!value.is_boolean())
      refuse(path, "\"" + key + "\" is " + describe(value) + "; expected true or false");
    if (value.get<bool>())
      arguments.push_back("--" + key);
    return;
  }
  auto add = [&](const Json &each, bool isItem) {
    std::string text = toText(path, key, each, isItem);
    // A value that begins with `-` must not be parsed as a flag.
    if (text.starts_with('-'))
      arguments.push_back("--" + key + "=" + text);
    else
      arguments.insert(arguments.end(), {"--" + key, std::move(text)});
  };
  if (!value.is_array())
    return add(value, /*isItem=*/false);
  for (const Json &item : value)
    add(item, /*isItem=*/true);
}

/// Finds the flag of a key. Fails for an unknown key, and for a flag that run files cannot set.
const FlagTable::Entry &findKey(const std::string &path, const std::string &key,
                                const FlagTable &table) {
  const FlagTable::Entry *entry = table.find(key);
  if (entry && entry->info.isInRunFile)
    return *entry;
  if (entry)
    refuse(path, "\"" + key + "\" is only allowed on the command line; remove it from the file");
  std::vector<std::string> names;
  for (const FlagTable::Entry &known : table.getEntries())
    if (known.info.isInRunFile)
      names.emplace_back(known.info.name);
  refuse(path, "unknown flag \"" + key + "\"" + parashard::suggestKey(key, names));
}

} // namespace

std::vector<std::string> readConfig(const std::string &path, const FlagTable &table) {
  std::ifstream stream(path);
  if (!stream)
    refuse(path, std::string("cannot be read: ") + std::strerror(errno));
  if ((stream >> std::ws).eof())
    refuse(path, "the file is empty; expected an object of flags, such as {\"steps\": 100}");
  stream.seekg(0);
  Json json;
  try {
    json = parseStrictly<Json>(stream);
  } catch (const nlohmann::json::exception &error) {
    refuse(path, describeJsonError(error));
  }
  if (!json.is_object())
    refuse(path, "expected an object of flags, such as {\"steps\": 100}");
  std::vector<std::string> arguments;
  for (auto &[key, value] : json.items()) {
    const FlagTable::Entry &entry = findKey(path, key, table);
    if (!table.isGiven(entry))
      append(arguments, path, key, value, entry.isSwitch());
  }
  return arguments;
}

} // namespace psrt
