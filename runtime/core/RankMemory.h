// Defines a rank's memory: one range of bytes, initially zero, with a fixed address for every
// buffer. The memory of a GPU is only accessible to the host through copies.
#ifndef PSRT_CORE_RANKMEMORY_H
#define PSRT_CORE_RANKMEMORY_H

#include <cstddef>
#include <cstdint>

namespace psrt {

/// The sizes of a rank's memory: `bytes` of device memory from address 0 on, and `hostBytes` of
/// host memory from address `hostBase` on, for offloaded data (0: none).
struct MemorySizes {
  MemorySizes(size_t bytes, size_t hostBase = 0, size_t hostBytes = 0)
      : bytes(bytes), hostBase(hostBase), hostBytes(hostBytes) {}
  size_t bytes, hostBase, hostBytes;
  /// Returns the end of the address range.
  size_t end() const { return hostBytes ? hostBase + hostBytes : bytes; }
  bool isInHost(int64_t address) const { return hostBytes && size_t(address) >= hostBase; }
};

/// A rank's memory. Copies are ordered with the rank's instructions: a copy after the run of an
/// entry reads what the entry wrote, and the entry reads what was copied before its run. Calls must
/// come from one thread at a time.
class RankMemory {
public:
  virtual ~RankMemory() = default;
  virtual size_t size() const = 0;
  /// Returns the pointer with which instructions access an address.
  virtual void *at(int64_t address) const = 0;
  /// Returns the pointer with which the host accesses an address, or null if the host cannot access
  /// the memory.
  virtual char *host(int64_t address) const = 0;
  /// Copy from the host to this memory and back. When `write` returns, `from` may be reused. When
  /// `read` returns, `to` is complete.
  virtual void write(int64_t address, const void *from, size_t bytes) = 0;
  virtual void read(int64_t address, void *to, size_t bytes) = 0;
  virtual void zero(int64_t address, size_t bytes) = 0;
  /// Returns a buffer for the host to fill, which `commit` then copies to the address. The buffer
  /// may be the memory itself; otherwise its contents are undefined. The buffer is valid until the
  /// commit or the next `stage`.
  virtual char *stage(int64_t address, size_t bytes) = 0;
  virtual void commit(char *staged, int64_t address, size_t bytes) = 0;
  /// Commits data of the next step. A device copies the data to a second buffer while earlier
  /// instructions run, and from there to the address after they have finished.
  virtual void commitAhead(char *staged, int64_t address, size_t bytes) {
    commit(staged, address, bytes);
  }
  /// Starts a read without waiting. After `finishRead`, `to` holds the bytes as they were after all
  /// earlier calls. No other read may use `to` in between.
  virtual void startRead(int64_t address, void *to, size_t bytes) = 0;
  virtual void finishRead(void *to) = 0;
};

} // namespace psrt

#endif
