// Globs over names, the same in the compiler's options, in policies and in the runtime's flags;
// knows no LLVM.
#ifndef PARASHARD_SHARED_GLOBS_H
#define PARASHARD_SHARED_GLOBS_H

#include <optional>
#include <string_view>
#include <utility>

namespace parashard {

/// The set at the front of a glob, such as "[0-3]" or "[!ab]": whether it has `c`, and its length.
/// None where no "]" ends it: the "[" is a character then.
inline std::optional<std::pair<bool, size_t>> matchGlobSet(std::string_view glob, char c) {
  size_t first = glob.size() > 1 && (glob[1] == '!' || glob[1] == '^') ? 2 : 1;
  size_t end = glob.find(']', first + 1); // a "]" that comes first is of the set
  if (end == std::string_view::npos)
    return std::nullopt;
  bool found = false;
  for (size_t i = first; i < end; ++i) {
    bool isRange = i + 2 < end && glob[i + 1] == '-';
    char last = glob[isRange ? i + 2 : i];
    found |= glob[i] <= c && c <= last;
    i += isRange ? 2 : 0;
  }
  return std::pair(found != (first == 2), end + 1);
}

/// `*` matches any characters, `?` one, `[a-c]` and `[!a-c]` one of a set or of all others. Takes
/// at most the product of both lengths (and of the sets') in time: only the last `*` is tried
/// again.
inline bool matchesGlob(std::string_view glob, std::string_view name) {
  size_t at = 0, place = 0, star = std::string_view::npos, taken = 0;
  while (place < name.size()) {
    size_t length = 0; // of what matches the character
    if (at < glob.size() && glob[at] == '*') {
      star = at++, taken = place;
      continue;
    }
    if (at < glob.size()) {
      auto set = glob[at] == '[' ? matchGlobSet(glob.substr(at), name[place]) : std::nullopt;
      if (set)
        length = set->first ? set->second : 0;
      else if (glob[at] == '?' || glob[at] == name[place])
        length = 1;
    }
    if (length)
      at += length, ++place;
    else if (star != std::string_view::npos)
      at = star + 1, place = ++taken;
    else
      return false;
  }
  return glob.find_first_not_of('*', at) == std::string_view::npos;
}

} // namespace parashard

#endif
