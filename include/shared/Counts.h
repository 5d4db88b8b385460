// Spells counts in messages of compiler and runtime. Does not use LLVM.
#ifndef PARASHARD_SHARED_COUNTS_H
#define PARASHARD_SHARED_COUNTS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace parashard {

/// Returns a count and its noun, whose plural ends with s. Example: 1 and "dim" give "1 dim", 2 and
/// "dim" give "2 dims".
inline std::string describeCount(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

} // namespace parashard

#endif // PARASHARD_SHARED_COUNTS_H
