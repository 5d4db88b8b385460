// Checks a program's table, whoever wrote it, before anything is computed from its numbers.
#ifndef PSRT_CORE_CHECKPROGRAM_H
#define PSRT_CORE_CHECKPROGRAM_H

#include "runtime/core/Program.h"

namespace psrt {

// All checks fail with BadInput and a message.

/// Checks that all axes have at least one device and that the number of ranks is not too large.
void checkMesh(const Mesh &mesh);
/// Checks that a list has no axis twice.
void checkAxes(const std::vector<int> &axes, const Mesh &mesh);
/// Checks that factors multiply to the sizes of their dims and that no axis splits a tensor twice.
void checkFactors(const Placement &placement, const Mesh &mesh);
/// Checks that products of sizes do not overflow and that dims and targets exist.
void checkCollective(const CollectiveOp &op, const Mesh &mesh);
/// Checks that a message or a collective over pipeline coordinates is allowed where it is.
/// `coordinate` is the coordinate of the program, or -1 for a function, which belongs to no
/// coordinate.
void checkMeeting(const Instruction &instruction, int64_t coordinate);
/// Checks the grid of a kernel and that written buffers are arguments.
void checkKernel(const KernelOp &op, size_t arguments);
/// Checks the sizes of windows and that sizes of the tensors do not overflow.
void checkConvolution(const ConvolutionOp &op);
void checkMaxPool(const MaxPoolOp &op);
/// Checks that a variable that is part of a file's tensor lies inside of that tensor.
void checkInitial(const Variable &variable);
/// Checks that variables, inputs, slots and outputs lie in the arena and that batch dims exist.
void checkProgram(const Program &program);

} // namespace psrt

#endif
