// Parses the instructions of a program's table (docs/program-format.md).
#ifndef PSRT_CORE_INSTRUCTIONPARSER_H
#define PSRT_CORE_INSTRUCTIONPARSER_H

#include "runtime/core/ProgramFields.h"

namespace psrt {

/// Appends buffers by the names of their fields. Fails if one is null.
void addBuffers(Instruction &result, const Json &object, std::initializer_list<const char *> keys);

/// Parse the instructions of ops that have a source of their own.
void parseSort(const Json &object, const Mesh &mesh, Instruction &result);

/// Parses an instruction. Throws BadInput if this runtime does not know it or it is incomplete.
Instruction parseInstruction(const Json &object, const Mesh &mesh);

} // namespace psrt

#endif
