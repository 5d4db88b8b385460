// Defines a rank's memory: one range of bytes, initially zero, with a fixed address for every
// buffer. On the CPU it is host memory; on a device the host only reaches it by copies.
#ifndef PSRT_CORE_RANKMEMORY_H
#define PSRT_CORE_RANKMEMORY_H

#include <cstddef>
#include <cstdint>

namespace psrt {

/// The sizes of a memory: the device's part from address 0 on, followed by host memory that the
/// device copies from and to (0 bytes: none).
struct MemorySizes {
  MemorySizes(size_t bytes, size_t hostBase = 0, size_t hostBytes = 0)
      : bytes(bytes), hostBase(hostBase), hostBytes(hostBytes) {}
  size_t bytes, hostBase, hostBytes;
  /// Returns the end of all addresses.
  size_t end() const { return hostBytes ? hostBase + hostBytes : bytes; }
  bool isInHost(int64_t address) const { return hostBytes && size_t(address) >= hostBase; }
};

/// A rank's memory. Copies are ordered with the rank's instructions: a copy after the run of an
/// entry sees the entry's writes, and the entry sees copies before it. Calls must come from one
/// thread at a time.
class RankMemory {
public:
  virtual ~RankMemory() = default;
  virtual size_t size() const = 0;
  /// Returns the byte at an address as instructions see it.
  virtual void *at(int64_t address) const = 0;
  /// Returns the byte at an address for the host, or null if the host cannot access it.
  virtual char *host(int64_t address) const = 0;
  /// Copy between host and memory. When they return, `from` may be reused and `to` is complete.
  virtual void write(int64_t address, const void *from, size_t bytes) = 0;
  virtual void read(int64_t address, void *to, size_t bytes) = 0;
  virtual void zero(int64_t address, size_t bytes) = 0;
  /// Returns memory that the host fills and `commit` then writes to the address: the bytes
  /// themselves, or a buffer with undefined contents. The returned memory is valid until the commit
  /// or the next `stage`.
  virtual char *stage(int64_t address, size_t bytes) = 0;
  virtual void commit(char *staged, int64_t address, size_t bytes) = 0;
  /// Commits data that is new in every step. A device copies it ahead while earlier instructions
  /// still run, and moves it to the address once they have finished.
  virtual void commitAhead(char *staged, int64_t address, size_t bytes) {
    commit(staged, address, bytes);
  }
  /// Starts a read without waiting. After `finishRead`, `to` holds the bytes as all earlier calls
  /// left them. No other read may use `to` meanwhile.
  virtual void startRead(int64_t address, void *to, size_t bytes) = 0;
  virtual void finishRead(void *to) = 0;
};

} // namespace psrt

#endif
