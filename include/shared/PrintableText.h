// Text of files that nobody vouches for, as a terminal may have it; for compiler and runtime, knows
// no LLVM.
#ifndef PARASHARD_SHARED_PRINTABLETEXT_H
#define PARASHARD_SHARED_PRINTABLETEXT_H

#include <string>
#include <string_view>

namespace parashard {

/// Returns the text with each control character as "\x1b", so that a name of a model or of a tensor
/// sets no color, title or cursor. `newline`: what stands for a newline; with "\n", lines stay,
/// with "\n  ", no name begins a line.
inline std::string escapeControls(std::string_view text, std::string_view newline = "\\x0a") {
  static const char digits[] = "0123456789abcdef";
  std::string result;
  auto escape = [&](unsigned char c) {
    result += "\\x";
    result += digits[c >> 4];
    result += digits[c & 15];
  };
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = text[i], next = i + 1 < text.size() ? text[i + 1] : 0;
    bool isOfUnicode = c == 0xc2 && next >= 0x80 && next < 0xa0; // U+0080 to U+009F in UTF-8
    if (c == '\n') {
      result += newline;
    } else if (isOfUnicode) {
      escape(c);
      escape(next);
      ++i;
    } else if (c < 0x20 || c == 0x7f) {
      escape(c);
    } else {
      result += char(c);
    }
  }
  return result;
}

} // namespace parashard

#endif
