// One rank's memory: a single range of zeroed bytes in which every buffer has a fixed address.
#ifndef PSRT_CORE_ARENA_H
#define PSRT_CORE_ARENA_H

#include <cstddef>
#include <cstdint>

namespace psrt {

/// Pages are touched first by who writes them; nothing is allocated after construction.
class Arena {
public:
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// The byte at an arena address; 4096-byte aligned at address 0.
  char *at(int64_t address) const { return base + address; }
  size_t size() const { return bytes; }
  /// Behind a guard of a page or more, which no buffer lies in.
  int64_t end() const { return int64_t(mapped); }

private:
  char *base;
  size_t bytes;
  size_t mapped;
};

} // namespace psrt

#endif
