// Declares the comparison of a run's tensors with those of another run.
#ifndef PARASHARD_TOOLS_PS_RUN_COMPARE_H
#define PARASHARD_TOOLS_PS_RUN_COMPARE_H

#include "lib/Evaluate/Safetensors.h"

namespace parashard {

/// Two sets of tensors that agree.
struct Agreement {
  size_t tensors = 0;
  double largest = 0; ///< largest difference, relative to the tensor's largest element
  std::string tensor; ///< tensor with that difference; empty if all elements are equal
};

/// Compares tensors by name. Every tensor must be in both sets, with the same type. Elements may
/// differ by `tolerance` times max(0.001, the largest magnitude in the tensor of `expected`).
/// Reason for 0.001: a gradient that is zero by its formula has elements that are rounding errors.
/// NaN and infinity agree only with themselves. The error names the tensor that differs most.
llvm::Expected<Agreement> compareTensors(const evaluate::NamedTensors &found,
                                         const evaluate::NamedTensors &expected, double tolerance);

} // namespace parashard

#endif
