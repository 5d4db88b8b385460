// Matches names against globs such as "*.bias", for the compiler's options, sharding policies and
// the runtime's flags. Does not use LLVM.
#ifndef PARASHARD_SHARED_GLOBS_H
#define PARASHARD_SHARED_GLOBS_H

#include <optional>
#include <string_view>
#include <utility>

namespace parashard {

/// Reads the set at the start of a glob, such as "[0-3]" or "[!ab]". Returns whether `c` matches
/// the set, and the length of the text of the set. Returns nullopt if the closing "]" is missing;
/// the "[" is then an ordinary character.
inline std::optional<std::pair<bool, size_t>> matchGlobSet(std::string_view glob, char c) {
  size_t first = glob.size() > 1 && (glob[1] == '!' || glob[1] == '^') ? 2 : 1;
  size_t end = glob.find(']', first + 1); // a "]" in first position belongs to the set
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

/// Returns whether a glob matches a name. `*` matches any characters, `?` matches one, `[a-c]` one
/// of a set and `[!a-c]` one outside a set. Example: "layers.*.w[qk]" matches "layers.3.wq". After
/// a mismatch, only the last `*` is extended. If each "[" has a closing "]", the time is therefore
/// at most proportional to glob length x name length.
inline bool matchesGlob(std::string_view glob, std::string_view name) {
  size_t at = 0, position = 0, star = std::string_view::npos, taken = 0;
  while (position < name.size()) {
    size_t length = 0; // length of the glob's part that matches the character
    if (at < glob.size() && glob[at] == '*') {
      star = at++, taken = position;
      continue;
    }
    if (at < glob.size()) {
      auto set = glob[at] == '[' ? matchGlobSet(glob.substr(at), name[position]) : std::nullopt;
      if (set)
        length = set->first ? set->second : 0;
      else if (glob[at] == '?' || glob[at] == name[position])
        length = 1;
    }
    if (length)
      at += length, ++position;
    else if (star != std::string_view::npos)
      at = star + 1, position = ++taken;
    else
      return false;
  }
  return glob.find_first_not_of('*', at) == std::string_view::npos;
}

} // namespace parashard

#endif
