// Reads the instructions of a program's table (docs/program-format.md).
#ifndef PSRT_CORE_INSTRUCTIONPARSER_H
#define PSRT_CORE_INSTRUCTIONPARSER_H

#include "runtime/core/ProgramFields.h"

namespace psrt {

/// \throws BadInput where this runtime has no such instruction, or it is not whole.
Instruction parseInstruction(const Json &object, const Mesh &mesh);

} // namespace psrt

#endif
