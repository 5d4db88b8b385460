// Maps the values of an enum to their names and back: one table per enum, for parsers and messages.
#ifndef PSRT_CORE_ENUMNAMES_H
#define PSRT_CORE_ENUMNAMES_H

#include "runtime/core/Status.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace psrt {

/// One row of an enum's table.
template <typename Enum> struct EnumName {
  Enum value;
  const char *name;
};

/// The table of an enum. Each enum that is parsed from text has a specialization next to its
/// definition:
///
///     template <> struct EnumNames<Color> {
///       static constexpr const char *what = "color"; // the noun in errors of parseName
///       static constexpr EnumName<Color> table[] = {{Color::Red, "red"}, {Color::Blue, "blue"}};
///     };
template <typename Enum> struct EnumNames;

/// Returns the name of a value, or "" if the table does not contain the value.
template <typename Enum> constexpr const char *nameOf(Enum value) {
  for (const EnumName<Enum> &row : EnumNames<Enum>::table)
    if (row.value == value)
      return row.name;
  return "";
}

/// Returns the value with the name, or nullopt if the table does not contain the name.
template <typename Enum> constexpr std::optional<Enum> findName(std::string_view name) {
  for (const EnumName<Enum> &row : EnumNames<Enum>::table)
    if (row.name == name)
      return row.value;
  return std::nullopt;
}

/// Joins names for a message. Example: {"a", "b", "c"} gives "a, b or c".
std::string joinNames(const std::vector<std::string> &names);

/// Returns all names of the enum, in the order of the table.
template <typename Enum> std::vector<std::string> listNames() {
  std::vector<std::string> names;
  for (const EnumName<Enum> &row : EnumNames<Enum>::table)
    names.push_back(row.name);
  return names;
}

/// Returns the value with the name. Fails with BadInput on an unknown name; the message lists the
/// valid names. Example: the owner `axis "dp"` gives `axis "dp" has the kind "dat"; expected data,
/// ...`.
template <typename Enum> Enum parseName(const std::string &name, const std::string &owner) {
  if (std::optional<Enum> value = findName<Enum>(name))
    return *value;
  PSRT_FAIL(BadInput, "%s has the %s \"%s\"; expected %s", owner.c_str(), EnumNames<Enum>::what,
            name.c_str(), joinNames(listNames<Enum>()).c_str());
}

} // namespace psrt

#endif
