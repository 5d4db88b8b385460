// Device memory and pinned host memory: ranges of the process's own memory, between pages that
// fault.
#ifndef PSRT_TESTING_DRIVER_MEMORY_H
#define PSRT_TESTING_DRIVER_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace psrt::fake {

struct Device;

/// Not thread-safe: the machine's lock guards it.
class Memory {
public:
  enum class Kind { Device, Pinned };
  struct Range {
    uint64_t begin = 0, end = 0; ///< as asked for
    Kind kind = Kind::Device;
    Device *device = nullptr;
    uint64_t charged = 0; ///< bytes that count against the device's memory
    void *mapping = nullptr;
    size_t mapped = 0;
  };

  /// New memory that ends (but for its alignment to 256 bytes) where a page begins that faults; its
  /// first bytes are 0xFF, a NaN in every float. Null where the system has none.
  const Range *allocate(Device *device, Kind kind, uint64_t bytes);
  void release(const Range &range);

  /// What is allocated on the device.
  std::vector<Range> of(const Device *device) const;
  /// The allocation that begins at `address`, or null.
  const Range *at(uint64_t address) const;
  /// The allocation that holds all of [address, address + bytes), or null.
  const Range *holding(uint64_t address, uint64_t bytes) const;

private:
  std::map<uint64_t, Range> ranges;
};

} // namespace psrt::fake

#endif
