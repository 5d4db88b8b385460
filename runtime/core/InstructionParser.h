// Parses the instructions of a program's JSON table (docs/program-format.md).
#ifndef PSRT_CORE_INSTRUCTIONPARSER_H
#define PSRT_CORE_INSTRUCTIONPARSER_H

#include "runtime/core/ProgramFields.h"

namespace psrt {

/// Appends the buffers in the fields `keys` of `object` to `result`. Fails if a buffer is null.
void addBuffers(Instruction &result, const Json &object, std::initializer_list<const char *> keys);

/// Parses a sort instruction (defined in SortOp.cpp).
void parseSort(const Json &object, const Mesh &mesh, Instruction &result);

/// Parses an instruction. Fails with BadInput if the instruction is unknown or lacks a field.
Instruction parseInstruction(const Json &object, const Mesh &mesh);

} // namespace psrt

#endif
