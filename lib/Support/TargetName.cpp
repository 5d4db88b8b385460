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

unsigned getArchitecture(StringRef target) {
  unsigned number = 0;
  if (!target.consume_front("cuda:sm_") || target.consumeInteger(10, number))
    return 0;
  return number;
}

} // namespace parashard::support
