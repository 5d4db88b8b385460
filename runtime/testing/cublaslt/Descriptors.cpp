// Sets the field that belongs to an attribute of cuBLASLt.
#include "runtime/testing/cublaslt/Descriptors.h"
#include <cstring>

namespace psrt::fake {

/// Sets a field if the value has the field's size.
template <typename T> static cublasStatus_t assign(T &field, const void *value, size_t bytes) {
  if (!value || bytes != sizeof(field))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, sizeof(field));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t MatmulDesc::set(cublasLtMatmulDescAttributes_t attribute, const void *value,
                               size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return assign(pointerMode, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign(transA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign(transB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign(epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign(bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    return assign(biasStride, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return assign(biasType, value, bytes);
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return assign(aScale, value, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return assign(bScale, value, bytes);
  case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER:
    return assign(dScale, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return assign(aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return assign(auxLd, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return assign(auxType, value, bytes);
  case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
    return assign(fastAccumulation, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t Layout::set(cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                           size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return assign(order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return assign(batches, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return assign(batchStride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t Preference::set(cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                               size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return assign(workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return assign(alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

} // namespace psrt::fake
