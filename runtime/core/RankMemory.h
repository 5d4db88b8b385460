// One rank's memory: a single range of bytes, zero at first, in which every buffer has a fixed
// address. On the CPU it is the host's; on a device the host reaches it by copies alone.
#ifndef PSRT_CORE_RANKMEMORY_H
#define PSRT_CORE_RANKMEMORY_H

#include <cstddef>
#include <cstdint>

namespace psrt {

/// Of a memory: the device's part from address 0 on, and behind it the host's, which the device
/// copies from and to (none: no bytes).
struct MemorySizes {
  MemorySizes(size_t bytes, size_t hostBase = 0, size_t hostBytes = 0)
      : bytes(bytes), hostBase(hostBase), hostBytes(hostBytes) {}
  size_t bytes, hostBase, hostBytes;
  /// The end of all addresses.
  size_t end() const { return hostBytes ? hostBase + hostBytes : bytes; }
  bool isInHost(int64_t address) const { return hostBytes && size_t(address) >= hostBase; }
};

/// Copies are in the order of the calls, among the rank's instructions: one that is called after an
/// entry has been run sees what that entry writes, and one called before it is seen by it. No two
/// threads call at once.
class RankMemory {
public:
  virtual ~RankMemory() = default;
  virtual size_t size() const = 0;
  /// The byte at an address, as instructions see it.
  virtual void *at(int64_t address) const = 0;
  /// The byte itself where the host can touch it; null elsewhere.
  virtual char *host(int64_t address) const = 0;
  /// `from` may change, and `to` is there, when they return.
  virtual void write(int64_t address, const void *from, size_t bytes) = 0;
  virtual void read(int64_t address, void *to, size_t bytes) = 0;
  virtual void zero(int64_t address, size_t bytes) = 0;
  /// Where the host writes what `commit` then brings to the address: the bytes themselves, or a
  /// buffer of any content, there until the commit or until another one is asked for.
  virtual char *stage(int64_t address, size_t bytes) = 0;
  virtual void commit(char *staged, int64_t address, size_t bytes) = 0;
  /// The same for what comes anew with every step: a device brings it near while instructions still
  /// run, and to the address when those before are over.
  virtual void commitAhead(char *staged, int64_t address, size_t bytes) {
    commit(staged, address, bytes);
  }
  /// Begins to read, and waits for nothing: after `finishRead` the bytes are at `to` as all calls
  /// before this one leave them. No other read goes there meanwhile.
  virtual void startRead(int64_t address, void *to, size_t bytes) = 0;
  virtual void finishRead(void *to) = 0;
};

} // namespace psrt

#endif
