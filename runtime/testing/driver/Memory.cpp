// Maps and unmaps memory.
#include "runtime/testing/driver/Memory.h"
#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace psrt::fake {

static constexpr uint64_t alignment = 256;
/// Maximum number of bytes of new memory that are filled. The buffers of the tests are smaller.
/// Large arenas stay mostly untouched.
static constexpr uint64_t filled = uint64_t(64) << 20;

/// Size in bytes of the pattern of new memory. A multiple of every page size.
static constexpr uint64_t patternBytes = uint64_t(1) << 20;

/// Returns a file of `patternBytes` bytes 0xff, or -1 if it cannot be created.
static int createPattern() {
  int file = memfd_create("psrt-fake-memory", MFD_CLOEXEC);
  std::vector<char> pattern(patternBytes, char(0xff));
  if (file >= 0 && write(file, pattern.data(), patternBytes) == ssize_t(patternBytes))
    return file;
  close(file);
  return -1;
}

/// Fills whole pages with 0xff. Maps private copies of one file, because most of the memory is
/// never written, and filling each page would take most of the time of short tests.
static bool fillPages(char *begin, uint64_t bytes) {
  static const int file = createPattern();
  for (uint64_t at = 0; at < bytes; at += patternBytes)
    if (mmap(begin + at, std::min(patternBytes, bytes - at), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED)
      return false;
  return true;
}

static uint64_t roundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

const Memory::Range *Memory::allocate(Device *device, Kind kind, uint64_t bytes) {
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), charged = roundUp(bytes, alignment);
  if (charged < bytes)
    return nullptr;
  uint64_t body = roundUp(charged, page);
  void *mapping =
      mmap(nullptr, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return nullptr;
  char *inside = static_cast<char *>(mapping) + page;
  uint64_t pages = roundUp(std::min(body, filled), page);
  if (mprotect(inside, body, PROT_READ | PROT_WRITE) != 0 || !fillPages(inside, pages)) {
    munmap(mapping, body + 2 * page);
    return nullptr;
  }
  char *begin = inside + body - charged;
  uint64_t address = reinterpret_cast<uint64_t>(begin);
  Range range{address, address + bytes, kind, device, charged, mapping, body + 2 * page};
  return &ranges.emplace(address, range).first->second;
}

void Memory::release(const Range &range) {
  munmap(range.mapping, range.mapped);
  ranges.erase(range.begin); // `range` may refer to the erased entry
}

std::vector<Memory::Range> Memory::of(const Device *device) const {
  std::vector<Range> own;
  for (const auto &[begin, range] : ranges)
    if (range.device == device)
      own.push_back(range);
  return own;
}

const Memory::Range *Memory::at(uint64_t address) const {
  auto found = ranges.find(address);
  return found == ranges.end() ? nullptr : &found->second;
}

const Memory::Range *Memory::holding(uint64_t address, uint64_t bytes) const {
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin())
    return nullptr;
  const Range &range = std::prev(next)->second;
  return address <= range.end && bytes <= range.end - address ? &range : nullptr;
}

} // namespace psrt::fake
