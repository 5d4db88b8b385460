// Parses the instructions of a program's table (docs/program-format.md).
#ifndef PSRT_CORE_INSTRUCTIONPARSER_H
#define PSRT_CORE_INSTRUCTIONPARSER_H

#include "runtime/core/ProgramFields.h"

namespace psrt {

/// Parses an instruction. Throws BadInput if this runtime does not know it or it is incomplete.
Instruction parseInstruction(const Json &object, const Mesh &mesh);

} // namespace psrt

#endif
