// Parses byte counts with decimal and binary units.
#include "lib/Support/Bytes.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace parashard::support {

/// Returns the factor of a unit: 1 for no unit, 0 for an unknown unit.
static double getUnit(llvm::StringRef unit) {
  if (unit.empty() || unit == "B")
    return 1;
  size_t power = llvm::StringRef("KMGT").find(unit.front()) + 1;
  if (power == 0)
    return 0;
  llvm::StringRef rest = unit.drop_front();
  return rest == "B" ? std::pow(1000, power) : rest == "iB" ? std::pow(1024, power) : 0;
}

llvm::Expected<int64_t> parseBytes(llvm::StringRef text) {
  llvm::StringRef number = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  double value = 0;
  bool isNumber = !number.getAsDouble(value);
  double bytes = value * getUnit(text.drop_front(number.size()));
  if (isNumber && bytes >= 1 && bytes < 9e18)
    return int64_t(bytes);
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "'" + text + "' is not a number of bytes" +
                                     (isNumber && value == 0 ? " above 0" : "") +
                                     "; give one such as 12GB, 500MiB or 1000000");
}

} // namespace parashard::support
