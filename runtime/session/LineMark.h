// Identifies the lines that a run had written to a file when it saved a checkpoint.
#ifndef PSRT_SESSION_LINEMARK_H
#define PSRT_SESSION_LINEMARK_H

#include "runtime/core/Status.h"
#include <algorithm>
#include <string_view>

namespace psrt {

/// The first `lines` lines of a file, with a hash of their bytes.
struct LineMark {
  int64_t lines = 0;
  std::string sum; ///< FNV-1a of the bytes of the lines, 16 hex digits
  bool operator==(const LineMark &) const = default;
};

/// Counts and hashes lines as they are written.
class LineCounter {
public:
  void add(std::string_view text) {
    lines += std::count(text.begin(), text.end(), '\n');
    for (unsigned char byte : text)
      hash = (hash ^ byte) * 0x100000001B3u;
  }
  LineMark mark() const { return {lines, format("%016llx", (unsigned long long)hash)}; }

private:
  int64_t lines = 0;
  uint64_t hash = 0xCBF29CE484222325u;
};

} // namespace psrt

#endif
