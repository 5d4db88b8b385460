// Suggests names for a glob that matches nothing, and for a misspelt flag or key, in messages of
// compiler and runtime. Does not use LLVM.
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

/// Returns the number of typing errors between two names: characters to insert, drop or change, and
/// pairs of neighbors to swap. Example: "stpes" and "steps" give 1.
inline size_t countTypingErrors(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> count(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        count[i][j] = i + j;
        continue;
      }
      count[i][j] = std::min(
          {count[i - 1][j] + 1, count[i][j - 1] + 1, count[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        count[i][j] = std::min(count[i][j], count[i - 2][j - 2] + 1);
    }
  return count[a.size()][b.size()];
}

/// Returns the names that the user probably meant: those with the fewest typing errors, if these
/// are at most a third of the characters, or else those that contain `name`. Returns at most three
/// names. Examples: "zerro" gives "zero", "policy" gives "sharding-policy", and "optimizer" gives
/// nothing if no name resembles it.
inline std::vector<std::string> findMeant(std::string_view name,
                                          const std::vector<std::string> &names) {
  size_t fewest = std::max<size_t>(1, (name.size() + 1) / 3);
  std::vector<std::string> near, longer;
  for (const std::string &known : names) {
    size_t errors = countTypingErrors(name, known);
    if (errors < fewest)
      near.clear();
    if (errors <= fewest)
      fewest = errors, near.push_back(known);
    if (name.size() >= 4 && known.find(name) != std::string::npos)
      longer.push_back(known);
  }
  std::vector<std::string> &meant = near.empty() ? longer : near;
  meant.resize(std::min<size_t>(meant.size(), 3));
  return meant;
}

/// Joins names for a message. Example: a, b and c with the word "or" give "'a', 'b' or 'c'".
inline std::string joinQuoted(const std::vector<std::string> &names, const std::string &word) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " " + word + " ") + ("'" + names[i] + "'");
  return text;
}

/// Returns "; did you mean 'a'?" for a misspelt key. If no known key resembles it, returns "; the
/// keys are 'a', 'b' and 'c'", or "" if there are more than a dozen.
inline std::string suggestKey(std::string_view key, const std::vector<std::string> &known) {
  constexpr size_t kFew = 12;
  if (std::vector<std::string> meant = findMeant(key, known); !meant.empty())
    return "; did you mean " + joinQuoted(meant, "or") + "?";
  return known.empty() || known.size() > kFew ? "" : "; the keys are " + joinQuoted(known, "and");
}

/// Returns "; did you mean --a?" for a misspelt flag, or "" if no known flag resembles it. Flags
/// are given without dashes.
inline std::string suggestFlag(std::string_view flag, const std::vector<std::string> &known) {
  std::string text;
  for (const std::string &name : findMeant(flag, known))
    text +=
        (text.empty() ? "; did you mean " : " or ") + ("-" + (name.size() > 1 ? "-" + name : name));
  return text + (text.empty() ? "" : "?");
}

} // namespace parashard

#endif
