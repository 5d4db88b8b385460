// Elements of the types of cuBLASLt as numbers.
#ifndef PSRT_TESTING_CUBLASLT_ELEMENTS_H
#define PSRT_TESTING_CUBLASLT_ELEMENTS_H

#include <cstdint>

namespace psrt::fake {

/// The value of an 8-bit float of type CUDA_R_8F_E4M3 or CUDA_R_8F_E5M2.
float fromFp8(uint8_t bits, int32_t type);
/// To the nearest, ties to even; what is too large becomes the largest.
uint8_t toFp8(double value, int32_t type);
/// To the 10 bits after the point that tensor cores take of a float.
float toTf32(float value);

/// Element `index` of an array of the type.
double loadElement(const void *data, int32_t type, int64_t index);
void storeElement(void *data, int32_t type, int64_t index, double value);

} // namespace psrt::fake

#endif
