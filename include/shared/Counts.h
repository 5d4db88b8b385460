// Spells counts in messages of compiler and runtime. Does not use LLVM.
#ifndef PARASHARD_SHARED_COUNTS_H
#define PARASHARD_SHARED_COUNTS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace parashard {

/// Returns a count and its noun, whose plural ends with s or es. Examples: "1 dim", "2 dims", "0
/// batches".
inline std::string describeCount(int64_t count, std::string_view noun) {
  std::string_view plural = noun.ends_with("ch") || noun.ends_with("s") ? "es" : "s";
  return std::to_string(count) + " " + std::string(noun) + std::string(count == 1 ? "" : plural);
}

} // namespace parashard

#endif // PARASHARD_SHARED_COUNTS_H
