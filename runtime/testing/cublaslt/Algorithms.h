// Defines the algorithms that the fake offers. All compute the same results; some pretend to be
// slow.
#ifndef PSRT_TESTING_CUBLASLT_ALGORITHMS_H
#define PSRT_TESTING_CUBLASLT_ALGORITHMS_H

#include "runtime/device/cuda/CublasLtApi.h"
#include <vector>

namespace psrt::fake {

using namespace psrt::cuda;

/// The meaning of an algorithm's bits.
struct Algorithm {
  uint64_t workspace = 0;    ///< bytes of workspace used
  uint64_t number = 0;       ///< index among the offered algorithms
  unsigned microseconds = 0; ///< pretended duration
  size_t alignment = 1;      ///< required alignment of the bias or bias gradient
};

/// Returns the algorithms that the heuristics offer, which use at most `workspace` bytes each.
/// $PSRT_FAKE_ALGORITHMS lists the durations of the algorithms in microseconds. Example:
/// "300,-,100"; "-" marks an algorithm that the heuristics report as unsupported. By default, there
/// are three algorithms without a delay. `vector` is the address of the bias or bias gradient. The
/// algorithms require the alignment of this address, but at most 16 bytes.
std::vector<cublasLtMatmulHeuristicResult_t> offerAlgorithms(uint64_t workspace,
                                                             const void *vector);

/// Decodes the bits of an algorithm. Returns false if they are not those of an offered algorithm.
bool decode(const cublasLtMatmulAlgo_t &bits, Algorithm &algorithm);

} // namespace psrt::fake

#endif
