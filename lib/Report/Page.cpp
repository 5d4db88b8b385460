// Inserts the data of a report, the style and the scripts into the template of the page.
#include "Page.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>

#include "Template.inc"

namespace json = llvm::json;

namespace parashard::report {

/// Prints JSON for a script element. Escapes `<`, so that no text can end the element or begin a
/// comment. In JSON, `<` only occurs inside strings.
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
  // The parts are in the order of their markers in page.html. Inserted text is never searched for
  // markers.
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
