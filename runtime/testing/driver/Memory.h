// Allocates device memory and pinned host memory as ranges of the process's memory, surrounded by
// guard pages.
#ifndef PSRT_TESTING_DRIVER_MEMORY_H
#define PSRT_TESTING_DRIVER_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace psrt::fake {

struct Device;

/// Not thread-safe; callers hold the lock of the fake Machine.
class Memory {
public:
  enum class Kind { Device, Pinned };
  struct Range {
    uint64_t begin = 0, end = 0; ///< the requested range
    Kind kind = Kind::Device;
    Device *device = nullptr;
    uint64_t charged = 0; ///< bytes counted against the device's memory
    void *mapping = nullptr;
    size_t mapped = 0;
  };

  /// Returns new memory, aligned to 256 bytes, with a guard page at most 255 bytes after its end.
  /// Fills up to 64 MiB with 0xFF, which is NaN in every float type. Returns null if the system has
  /// no memory.
  const Range *allocate(Device *device, Kind kind, uint64_t bytes);
  void release(const Range &range);

  /// Returns the device's allocations.
  std::vector<Range> of(const Device *device) const;
  /// Returns the allocation that begins at `address`, or null.
  const Range *at(uint64_t address) const;
  /// Returns the allocation that contains all of [address, address + bytes), or null.
  const Range *holding(uint64_t address, uint64_t bytes) const;

private:
  std::map<uint64_t, Range> ranges;
};

} // namespace psrt::fake

#endif
