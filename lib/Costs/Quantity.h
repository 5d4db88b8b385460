// Reads quantities with units, such as "3.35TB/s".
#ifndef PARASHARD_LIB_COSTS_QUANTITY_H
#define PARASHARD_LIB_COSTS_QUANTITY_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace parashard::costs {

/// The unit of a quantity.
enum class Unit { Bytes, BytesPerSecond, FlopsPerSecond, Seconds };

/// Reads a number with its unit: "80GB", "16GiB", "3.35TB/s", "989TFLOP/s", "4us". Seconds may have
/// the prefixes n, u and m. Other units may have the decimal prefixes k, M, G, T and P, or the
/// binary prefixes Ki, Mi, Gi and Ti (powers of 1024). Returns the value in bytes, bytes per
/// second, FLOP per second or seconds. Returns nullopt for any other text, and for a value that is
/// negative or infinite.
std::optional<double> parseQuantity(llvm::StringRef text, Unit unit);

/// Returns an example of a quantity for error messages, in double quotes. Example: `"80GB"` for
/// bytes.
llvm::StringRef getExample(Unit unit);

/// Formats a number of seconds. From 1 us to 1000 s, the result has three significant digits:
/// "4.00 us", "12.3 ms", "1.05 s".
std::string printSeconds(double seconds);

} // namespace parashard::costs

#endif
