// Checks the numbers in a program's JSON table before they are used. The table may be damaged or
// written by hand.
#ifndef PSRT_CORE_CHECKPROGRAM_H
#define PSRT_CORE_CHECKPROGRAM_H

#include "runtime/core/Program.h"

namespace psrt {

// All checks fail with BadInput and a message.

/// Checks that all axes have at least one device and that the number of ranks is not too large.
void checkMesh(const Mesh &mesh);
/// Checks that no axis is listed twice.
void checkAxes(const std::vector<int> &axes, const Mesh &mesh);
/// Checks that factors multiply to the sizes of their dims and that no axis splits a tensor twice.
void checkFactors(const Placement &placement, const Mesh &mesh);
/// Checks that numbers of elements do not overflow, that the dims of an all_to_all exist, that the
/// targets of a permute are a permutation, and that pipeline coordinates ascend.
void checkCollective(const CollectiveOp &op, const Mesh &mesh);
/// Checks that an instruction of a function does not communicate between pipeline coordinates.
/// Only programs may do so.
void checkNoPipelineCommunication(const Instruction &instruction, const std::string &function);
/// Checks communication between pipeline coordinates in the program of an entry on `coordinate`:
/// the peer of a message must be another coordinate, and a collective must include `coordinate`.
void checkPipelineCommunication(const Instruction &instruction, const std::string &entry,
                                int64_t coordinate);
/// Checks the grid of a kernel, and that the indices of written arguments are valid.
void checkKernel(const KernelOp &op, size_t arguments);
/// Check the sizes of windows, and that numbers of elements do not overflow.
void checkConvolution(const ConvolutionOp &op);
void checkMaxPool(const MaxPoolOp &op);
/// Checks that the range of a variable is within the file's tensor, if the variable is a part of
/// this tensor.
void checkInitial(const Variable &variable);
/// Checks that variables, inputs, slots and outputs lie in the arena or in host memory, and that
/// batch dims exist.
void checkProgram(const Program &program);

} // namespace psrt

#endif
