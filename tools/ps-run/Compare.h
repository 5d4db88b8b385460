// Declares the comparison of the tensors of two runs.
#ifndef PARASHARD_TOOLS_PS_RUN_COMPARE_H
#define PARASHARD_TOOLS_PS_RUN_COMPARE_H

#include "lib/Evaluate/Safetensors.h"

namespace parashard {

/// The result of a successful comparison.
struct Agreement {
  size_t tensors = 0;
  /// Largest difference, relative to max(0.001, the largest magnitude in the expected tensor).
  double largest = 0;
  std::string tensor; ///< tensor with the largest difference; empty if all elements are equal
};

/// Compares tensors by name. Every tensor must be in both sets, with the same type. Elements may
/// differ by `tolerance` times max(0.001, the largest magnitude in the tensor of `expected`). The
/// floor of 0.001 is for tensors that would be zero in exact arithmetic, such as some gradients.
/// All of their elements are rounding errors. A NaN agrees only with a NaN, and an infinity only
/// with an equal infinity. An error names the tensor with the largest relative difference.
llvm::Expected<Agreement> compareTensors(const evaluate::NamedTensors &found,
                                         const evaluate::NamedTensors &expected, double tolerance);

} // namespace parashard

#endif
