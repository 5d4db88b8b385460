// Puts the data of a report into the page: style, script and data stand in the one document.
#include "Page.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>

#include "Template.inc"

namespace json = llvm::json;

namespace parashard::report {

/// As a script element takes it: with no `<`, nothing in it ends the element or begins a comment.
/// `<` stands only inside of strings, where JSON writes it as an escape too.
static void printInScript(const json::Value &data, llvm::raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream(text) << data;
  for (char c : text) {
    if (c == '<')
      os << "\\u003c";
    else
      os << c;
  }
}

void printPage(const json::Value &data, llvm::StringRef title, llvm::raw_ostream &os) {
  llvm::StringRef name = llvm::sys::path::filename(title);
  std::string text = json::isUTF8(name) ? name.str() : json::fixUTF8(name);
  // In the order in which they stand in page.html; what is put in is not searched again.
  std::pair<llvm::StringRef, std::function<void()>> parts[] = {
      {"@TITLE@", [&] { llvm::printHTMLEscaped(text, os); }},
      {"@STYLE@", [&] { os << kPageCss; }},
      {"@DATA@", [&] { printInScript(data, os); }},
      {"@SCRIPT@", [&] { os << kTableJs << kSectionsJs << kPageJs; }},
  };
  llvm::StringRef rest = kPageHtml;
  for (auto &[mark, print] : parts) {
    auto [before, after] = rest.split(mark);
    os << before;
    print();
    rest = after;
  }
  os << rest;
}

} // namespace parashard::report
