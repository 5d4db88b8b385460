// Converts elements of cuBLASLt's types to and from numbers.
#ifndef PSRT_TESTING_CUBLASLT_ELEMENTS_H
#define PSRT_TESTING_CUBLASLT_ELEMENTS_H

#include <cstdint>

namespace psrt::fake {

/// Returns the value of an 8-bit float of type CUDA_R_8F_E4M3 or CUDA_R_8F_E5M2.
float fromFp8(uint8_t bits, int32_t type);
/// Rounds to the nearest 8-bit float, ties to even. Values that are too large become the largest
/// number.
uint8_t toFp8(double value, int32_t type);
/// Rounds to TF32, which has 10 fraction bits.
float toTf32(float value);

/// Load or store element `index` of an array of the type.
double loadElement(const void *data, int32_t type, int64_t index);
void storeElement(void *data, int32_t type, int64_t index, double value);

} // namespace psrt::fake

#endif
