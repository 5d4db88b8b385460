// Makes text from untrusted files safe to print on a terminal. Shared by compiler and runtime; does
// not use LLVM.
#ifndef PARASHARD_SHARED_PRINTABLETEXT_H
#define PARASHARD_SHARED_PRINTABLETEXT_H

#include <string>
#include <string_view>

namespace parashard {

/// Returns the text with each control character as an escape such as "\x1b". A printed name then
/// cannot change the color, the window title or the cursor position of the terminal. Newlines are
/// replaced by `newline`. Examples: `"\n"` keeps lines; `"\n  "` indents the next line, so that no
/// line begins with text from a name.
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
    bool isC1Control = c == 0xc2 && next >= 0x80 && next < 0xa0; // U+0080 to U+009F in UTF-8
    if (c == '\n') {
      result += newline;
    } else if (isC1Control) {
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
