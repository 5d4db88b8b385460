// How far the buffers of instructions reach, by the plan of the memory.
#ifndef PSRT_CORE_BUFFEREXTENTS_H
#define PSRT_CORE_BUFFEREXTENTS_H

#include "runtime/core/Program.h"

namespace psrt {

/// Tells whoever checks accesses what an instruction may touch; slow, made for checks alone.
class BufferExtents {
public:
  BufferExtents(const Program &program, int64_t stage);
  /// Bytes from an address to the end of what lies there while `instruction` of `entry` runs; 1
  /// where the plan has nothing there.
  int64_t find(const EntryCode &point, const ProgramEntry &entry, const Instruction &instruction,
               int64_t address) const;

private:
  int64_t inScratch(const ProgramEntry &entry, const Instruction &instruction,
                    int64_t address) const;

  const Program &program;
  std::map<int64_t, int64_t> variables; ///< the end, by the first byte
};

} // namespace psrt

#endif
