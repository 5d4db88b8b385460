// The algorithms that the fake offers: all compute the same, some pretend to be slow.
#ifndef PSRT_TESTING_CUBLASLT_ALGORITHMS_H
#define PSRT_TESTING_CUBLASLT_ALGORITHMS_H

#include "runtime/device/cuda/CublasLtApi.h"
#include <vector>

namespace psrt::fake {

using namespace psrt::cuda;

/// What an algorithm's bits stand for.
struct Algorithm {
  uint64_t workspace = 0;    ///< bytes that it uses
  uint64_t number = 0;       ///< among those that are offered
  unsigned microseconds = 0; ///< that it pretends to take
  size_t alignment = 1;      ///< that it expects of the bias, or of sums
};

/// Those that fit the workspace, best first by the word of the heuristics: $PSRT_FAKE_ALGORITHMS
/// has the microseconds that each takes, as "300,-,100" ("-": one that is not built for any
/// matmul, which the heuristics mark so); three that take none where it is not set. They expect
/// of `vector`, the bias or where sums go, what it is a multiple of, up to 16.
std::vector<cublasLtMatmulHeuristicResult_t> offerAlgorithms(uint64_t workspace,
                                                             const void *vector);

/// False where the bits are none that were offered.
bool decode(const cublasLtMatmulAlgo_t &bits, Algorithm &algorithm);

} // namespace psrt::fake

#endif
