// Checks the names of targets.
#include "lib/Support/TargetName.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace parashard::support {

bool isTargetName(StringRef text) {
  if (text == "cpu" || (text.consume_front("cpu:") && !text.empty()))
    return true;
  return text == "cuda:replay" ||
         (text.consume_front("cuda:sm_") && !text.empty() && isDigit(text.front()));
}

} // namespace parashard::support
