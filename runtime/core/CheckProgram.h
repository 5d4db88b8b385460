// What must hold in a program's table, whoever wrote it, before anything is computed from its
// numbers.
#ifndef PSRT_CORE_CHECKPROGRAM_H
#define PSRT_CORE_CHECKPROGRAM_H

#include "runtime/core/Program.h"

namespace psrt {

// All fail with BadInput, and say what is wrong.

/// Axes have a device or more each, and their product is a number of ranks.
void checkMesh(const Mesh &mesh);
/// No axis stands twice in a list.
void checkAxes(const std::vector<int> &axes, const Mesh &mesh);
/// Factors multiply to the sizes of their dims, and no axis splits a tensor twice.
void checkFactors(const Placement &placement, const Mesh &mesh);
/// Its sizes can be multiplied, and its dims and targets are there.
void checkCollective(const CollectiveOp &op, const Mesh &mesh);
/// What goes over pipeline coordinates takes part where it stands: at `coordinate`, or in a
/// function
/// (-1), which belongs to none.
void checkMeeting(const Instruction &instruction, int64_t coordinate);
/// A grid has blocks, and what is written is an argument.
void checkKernel(const KernelOp &op, size_t arguments);
/// Windows have sizes, and those of the tensors can be multiplied.
void checkConvolution(const ConvolutionOp &op);
void checkMaxPool(const MaxPoolOp &op);
/// A variable that is a part of a tensor in a file lies inside of it.
void checkInitial(const Variable &variable);
/// Variables, inputs, slots and outputs lie in the arena, and batch dims are there.
void checkProgram(const Program &program);

} // namespace psrt

#endif
