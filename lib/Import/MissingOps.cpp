// Counts the ops without a converter, and lists them in a message.
#include "lib/Import/MissingOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace parashard::import {

void MissingOps::add(StringRef name, const SourceLocation &location) {
  Uses &uses = ops[name.str()];
  if (uses.count++ == 0)
    uses.first = describeLocation(location);
}

std::string MissingOps::describe(StringRef advice) const {
  if (ops.empty())
    return "";
  std::string text =
      formatv("{0} op{1} of the model cannot be imported:", ops.size(), ops.size() == 1 ? "" : "s");
  for (const auto &[name, uses] : ops)
    text += formatv("\n  {0}: {1} use{2}, the first in {3}", name, uses.count,
                    uses.count == 1 ? "" : "s", uses.first);
  return text + "\n" + advice.str();
}

} // namespace parashard::import
