// Wraps texts of help in compiler and runtime. Does not use LLVM.
#ifndef PARASHARD_SHARED_WRAPTEXT_H
#define PARASHARD_SHARED_WRAPTEXT_H

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace parashard {

/// Splits a text into lines of at most `columns` bytes, at blanks. A longer word gets a line of its
/// own.
inline std::string wrapText(std::string_view text, size_t columns) {
  std::string lines;
  size_t used = 0; // bytes of the last line
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    bool fits = used == 0 || used + 1 + word.size() <= columns;
    lines += used == 0 ? "" : fits ? " " : "\n";
    lines += word;
    used = fits ? used + (used > 0) + word.size() : word.size();
  }
  return lines;
}

} // namespace parashard

#endif // PARASHARD_SHARED_WRAPTEXT_H
