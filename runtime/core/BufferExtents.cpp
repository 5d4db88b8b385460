// Looks up an address among variables, scratch, values and slots.
#include "runtime/core/BufferExtents.h"

namespace psrt {

BufferExtents::BufferExtents(const Program &program, int64_t coordinate) : program(program) {
  for (const Variable &variable : program.variables)
    if (variable.addresses.isAt(coordinate)) {
      int64_t address = variable.addresses.at(coordinate);
      variables[address] = address + variable.localBytes();
    }
}

/// Returns the number of bytes from `address` to the end of the buffer that contains it at index
/// `at` of the code: an instruction of a function, or an element of an entry's code. Returns 0 if
/// no live buffer contains the address.
static int64_t findAt(const std::vector<BufferLifetime> &buffers, int64_t address, int64_t at) {
  for (const BufferLifetime &buffer : buffers)
    if (buffer.address <= address && address < buffer.address + buffer.bytes &&
        buffer.begin <= at && at <= buffer.end)
      return buffer.address + buffer.bytes - address;
  return 0;
}

int64_t BufferExtents::inScratch(const ProgramEntry &element, const Instruction &instruction,
                                 int64_t address) const {
  if (element.function < 0 || element.bases.empty())
    return 0;
  const Function &function = program.functions[element.function];
  return findAt(function.buffers, address - element.bases.back(), &instruction - &function.code[0]);
}

int64_t BufferExtents::find(const EntryCode &point, const ProgramEntry &element,
                            const Instruction &instruction, int64_t address) const {
  auto above = variables.upper_bound(address);
  if (above != variables.begin() && std::prev(above)->second > address)
    return std::prev(above)->second - address;
  if (int64_t found = inScratch(element, instruction, address))
    return found;
  if (int64_t found = findAt(point.buffers, address, &element - &point.code[0]))
    return found;
  int64_t kept = point.slotBase + point.slots * point.slotBytes;
  if (point.slotBytes > 0 && address >= point.slotBase && address < kept)
    return point.slotBytes - (address - point.slotBase) % point.slotBytes;
  return 1;
}

} // namespace psrt
