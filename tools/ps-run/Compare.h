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
/// differ by `tolerance` times the largest magnitude in the tensor of `expected`, or times 0.001 if
/// all are smaller: a gradient that is zero by its formula has elements that are rounding errors.
/// NaN and infinity agree only with themselves. The error names the tensor that differs most.
llvm::Expected<Agreement> compareTensors(const evaluate::NamedTensors &found,
                                         const evaluate::NamedTensors &expected, double tolerance);

} // namespace parashard

#endif
