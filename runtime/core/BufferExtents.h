// Finds the extents of instructions' buffers in the memory plan.
#ifndef PSRT_CORE_BUFFEREXTENTS_H
#define PSRT_CORE_BUFFEREXTENTS_H

#include "runtime/core/Program.h"

namespace psrt {

/// Returns the bytes that an instruction may access. Slow; only for access checks.
class BufferExtents {
public:
  BufferExtents(const Program &program, int64_t stage);
  /// Returns the bytes from an address to the end of its buffer while `instruction` of `entry`
  /// runs, or 1 if the plan has no buffer at the address.
  int64_t find(const EntryCode &point, const ProgramEntry &entry, const Instruction &instruction,
               int64_t address) const;

private:
  int64_t inScratch(const ProgramEntry &entry, const Instruction &instruction,
                    int64_t address) const;

  const Program &program;
  std::map<int64_t, int64_t> variables; ///< end by first byte
};

} // namespace psrt

#endif
