// Reads source locations from the Python stack traces that exporters record.
#include "lib/Import/SourceLocation.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

/// Returns true for a file of the package `torch`. Paths may be relative to the folder of packages.
static bool isInsideTorch(StringRef file) {
  return file.starts_with("torch/") || file.contains("/torch/") || file.contains("\\torch\\");
}

void readStackTrace(StringRef trace, SourceLocation &source) {
  while (!trace.empty()) {
    StringRef text;
    std::tie(text, trace) = trace.split('\n');
    text = text.ltrim();
    if (!text.consume_front("File \""))
      continue;
    auto [file, rest] = text.split("\", line ");
    unsigned line = 0;
    if (rest.consumeInteger(10, line) || (isInsideTorch(file) && source.line))
      continue;
    source.file = file.str();
    source.line = line;
  }
}

Location getLocation(const SourceLocation &source, MLIRContext *context) {
  Location line = FileLineColLoc::get(context, source.file, source.line, 0);
  if (source.modulePath.empty())
    return line;
  return NameLoc::get(StringAttr::get(context, source.modulePath), line);
}

std::string describeLocation(const SourceLocation &source) {
  std::string module = source.modulePath.empty() ? "the model itself" : source.modulePath;
  return source.line ? formatv("{0} ({1}:{2})", module, source.file, source.line).str() : module;
}

} // namespace parashard::import
