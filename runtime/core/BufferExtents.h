// Finds how many bytes of each buffer an instruction may access, according to the memory plan.
#ifndef PSRT_CORE_BUFFEREXTENTS_H
#define PSRT_CORE_BUFFEREXTENTS_H

#include "runtime/core/Program.h"

namespace psrt {

/// Finds the buffers of one pipeline coordinate. Slow: used only to check memory accesses.
class BufferExtents {
public:
  BufferExtents(const Program &program, int64_t coordinate);
  /// Returns the number of bytes from an address to the end of the buffer that contains it while
  /// `instruction` of `element` runs. Returns 1 if the memory plan has no buffer at the address.
  int64_t find(const EntryCode &point, const ProgramEntry &element, const Instruction &instruction,
               int64_t address) const;

private:
  int64_t inScratch(const ProgramEntry &element, const Instruction &instruction,
                    int64_t address) const;

  const Program &program;
  std::map<int64_t, int64_t> variables; ///< key: address of a variable; value: address of its end
};

} // namespace psrt

#endif
