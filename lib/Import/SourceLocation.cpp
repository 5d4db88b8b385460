// Reads places from what exporters keep of Python's stack.
#include "lib/Import/SourceLocation.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

static bool isInsideTorch(StringRef file) {
  return file.contains("/torch/") || file.contains("\\torch\\");
}

void readStackTrace(StringRef trace, SourceLocation &place) {
  while (!trace.empty()) {
    StringRef text;
    std::tie(text, trace) = trace.split('\n');
    text = text.ltrim();
    if (!text.consume_front("File \""))
      continue;
    auto [file, rest] = text.split("\", line ");
    unsigned line = 0;
    if (rest.consumeInteger(10, line) || (isInsideTorch(file) && place.line))
      continue;
    place.file = file.str();
    place.line = line;
  }
}

Location getLocation(const SourceLocation &place, MLIRContext *context) {
  Location line = FileLineColLoc::get(context, place.file, place.line, 0);
  if (place.modulePath.empty())
    return line;
  return NameLoc::get(StringAttr::get(context, place.modulePath), line);
}

std::string describeLocation(const SourceLocation &place) {
  std::string module = place.modulePath.empty() ? "the model itself" : place.modulePath;
  return place.line ? formatv("{0} ({1}:{2})", module, place.file, place.line).str() : module;
}

} // namespace parashard::import
