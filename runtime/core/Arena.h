// Defines the arena: a rank's memory on the host.
#ifndef PSRT_CORE_ARENA_H
#define PSRT_CORE_ARENA_H

#include "runtime/core/RankMemory.h"
#include <cstring>

namespace psrt {

/// Memory mapped with mmap. The system places each page on the NUMA node of the thread that first
/// writes it. Nothing is allocated after construction.
class Arena final : public RankMemory {
public:
  explicit Arena(size_t bytes);
  ~Arena() override;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  size_t size() const override { return bytes; }
  /// Returns a pointer to the byte at an address. Address 0 is 4096-byte aligned.
  char *host(int64_t address) const override { return base + address; }
  void *at(int64_t address) const override { return base + address; }
  void write(int64_t address, const void *from, size_t count) override {
    std::memcpy(base + address, from, count);
  }
  void read(int64_t address, void *to, size_t count) override {
    std::memcpy(to, base + address, count);
  }
  void zero(int64_t address, size_t count) override { std::memset(base + address, 0, count); }
  char *stage(int64_t address, size_t) override { return base + address; }
  void commit(char *, int64_t, size_t) override {}
  void startRead(int64_t address, void *to, size_t count) override { read(address, to, count); }
  void finishRead(void *) override {}
  /// Returns the address at which the mapping ends, at least 4096 bytes after the end of the arena.
  /// The bytes in between belong to no buffer.
  int64_t end() const { return int64_t(mapped); }

private:
  char *base;
  size_t bytes;
  size_t mapped;
};

} // namespace psrt

#endif
