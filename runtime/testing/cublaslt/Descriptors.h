// Defines descriptors of matmuls and layouts, with the attributes that were set.
#ifndef PSRT_TESTING_CUBLASLT_DESCRIPTORS_H
#define PSRT_TESTING_CUBLASLT_DESCRIPTORS_H

#include "runtime/device/cuda/CublasLtApi.h"

namespace psrt::fake {

using namespace psrt::cuda;

struct MatmulDesc {
  int32_t compute = 0, scale = 0;
  int32_t pointerMode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr;
  int64_t biasStride = 0;
  int32_t biasType = -1;
  const float *aScale = nullptr, *bScale = nullptr, *dScale = nullptr;
  void *aux = nullptr;
  int64_t auxLd = 0;
  int32_t auxType = -1;
  int8_t fastAccumulation = 0;

  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes);
};

struct Layout {
  int32_t type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batches = 1;
  int64_t batchStride = 0;

  cublasStatus_t set(cublasLtMatrixLayoutAttribute_t attribute, const void *value, size_t bytes);
  bool operator==(const Layout &) const = default;
  /// Return the distance in elements between neighboring rows, and between neighboring columns.
  int64_t rowStep() const { return order == CUBLASLT_ORDER_COL ? 1 : ld; }
  int64_t columnStep() const { return order == CUBLASLT_ORDER_COL ? ld : 1; }
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};

  cublasStatus_t set(cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                     size_t bytes);
};

} // namespace psrt::fake

#endif
