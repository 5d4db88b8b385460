// Suggests names for a glob that matches nothing, in messages of compiler and runtime. Does not use
// LLVM.
#ifndef PARASHARD_SHARED_NEARESTNAMES_H
#define PARASHARD_SHARED_NEARESTNAMES_H

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parashard {

/// Returns the edit distance: the minimum number of characters of `name` to insert, drop or change
/// so that `glob` matches. `*` stands for any characters and `?` for one. Example: "l*r.wq" and
/// "layer.wk" give 1.
inline size_t getGlobDistance(std::string_view glob, std::string_view name) {
  std::vector<size_t> row(name.size() + 1);
  for (size_t j = 0; j <= name.size(); ++j)
    row[j] = j;
  for (char c : glob) {
    size_t diagonal = row[0];
    row[0] += c != '*';
    for (size_t j = 1; j <= name.size(); ++j) {
      size_t above = row[j];
      bool same = c == '?' || c == name[j - 1];
      row[j] = c == '*' ? std::min(above, row[j - 1])
                        : std::min({above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

/// Returns "; the nearest names are 'a', 'b' and 'c'" with at most three of `names`. Returns "; the
/// only name is 'a'" if `names` has one name, and "" if it is empty. Names that begin with the glob
/// are nearest: "h100" suggests "h100-sxm" before "h200".
inline std::string describeNearest(std::string_view glob, const std::vector<std::string> &names) {
  std::vector<std::pair<size_t, size_t>> ranked; // distance, index
  ranked.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    ranked.emplace_back(names[i].starts_with(glob) ? 0 : getGlobDistance(glob, names[i]), i);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min<size_t>(ranked.size(), 3));
  std::string text;
  for (size_t i = 0; i < ranked.size(); ++i)
    text += (i == 0                   ? ""
             : i + 1 == ranked.size() ? " and "
                                      : ", ") +
            ("'" + names[ranked[i].second] + "'");
  if (text.empty())
    return "";
  return (ranked.size() > 1 ? "; the nearest names are " : "; the only name is ") + text;
}

} // namespace parashard

#endif
