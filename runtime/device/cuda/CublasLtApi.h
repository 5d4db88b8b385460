// Declares the part of cuBLASLt that the runtime uses, as in NVIDIA's cublasLt.h. With its own
// declarations, the runtime builds without the CUDA toolkit and links no library. If cublasLt.h is
// installed, a test compares the declarations.
#ifndef PSRT_DEVICE_CUDA_CUBLASLTAPI_H
#define PSRT_DEVICE_CUDA_CUBLASLTAPI_H

#include "runtime/device/cuda/DriverApi.h"

namespace psrt::cuda {

using cublasStatus_t = int;
using cublasLtHandle_t = struct CublasLtTag *;
using cublasLtMatmulDesc_t = struct MatmulDescTag *;
using cublasLtMatrixLayout_t = struct MatrixLayoutTag *;
using cublasLtMatmulPreference_t = struct MatmulPreferenceTag *;

enum : cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cudaDataType : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29,
};
enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
/// Values of the TRANSA and TRANSB attributes (int32_t).
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
/// Values of the ORDER attribute (int32_t).
enum cublasLtOrder_t : int { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };
/// Values of the POINTER_MODE attribute (int32_t).
enum cublasLtPointerMode_t : int {
  CUBLASLT_POINTER_MODE_HOST = 0,
  CUBLASLT_POINTER_MODE_DEVICE = 1,
};
/// Values of the EPILOGUE attribute (uint32_t).
enum cublasLtEpilogue_t : unsigned {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX = 160,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};
/// Attributes of matrix layouts, each with its value type.
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                ///< int32_t
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          ///< int32_t
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, ///< int64_t, elements
};
/// Attributes of matmul descriptors, each with its value type.
enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,            ///< int32_t
  CUBLASLT_MATMUL_DESC_TRANSA = 3,                  ///< int32_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,                  ///< int32_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                ///< uint32_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,            ///< void *
  CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,      ///< int64_t, elements
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,   ///< void *
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,        ///< int64_t, elements
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,        ///< void *: f32 on the device
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,        ///< void *: f32 on the device
  CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,        ///< void *: f32 on the device
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22, ///< int32_t
  CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,             ///< int8_t
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,         ///< int32_t
};
/// Attributes of the preferences that are passed to the heuristics, each with its value type.
enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,   ///< uint64_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8, ///< uint32_t
};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

/// X(name in CublasLt, symbol in libcublasLt, result, arguments)
#define PSRT_CUBLASLT_FUNCTIONS(X)                                                                 \
  X(create, cublasLtCreate, cublasStatus_t, (cublasLtHandle_t * handle))                           \
  X(destroy, cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))                           \
  X(getVersion, cublasLtGetVersion, size_t, ())                                                    \
  X(getStatusName, cublasLtGetStatusName, const char *, (cublasStatus_t status))                   \
  X(matmulDescCreate, cublasLtMatmulDescCreate, cublasStatus_t,                                    \
    (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType scale))                \
  X(matmulDescSetAttribute, cublasLtMatmulDescSetAttribute, cublasStatus_t,                        \
    (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,       \
     size_t bytes))                                                                                \
  X(matmulDescDestroy, cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t desc))     \
  X(matrixLayoutCreate, cublasLtMatrixLayoutCreate, cublasStatus_t,                                \
    (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns,          \
     int64_t ld))                                                                                  \
  X(matrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute, cublasStatus_t,                    \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,  \
     size_t bytes))                                                                                \
  X(matrixLayoutDestroy, cublasLtMatrixLayoutDestroy, cublasStatus_t,                              \
    (cublasLtMatrixLayout_t layout))                                                               \
  X(matmulPreferenceCreate, cublasLtMatmulPreferenceCreate, cublasStatus_t,                        \
    (cublasLtMatmulPreference_t * preference))                                                     \
  X(matmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,            \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,        \
     const void *value, size_t bytes))                                                             \
  X(matmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy, cublasStatus_t,                      \
    (cublasLtMatmulPreference_t preference))                                                       \
  X(matmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                        \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                 \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                 \
     cublasLtMatmulPreference_t preference, int requested,                                         \
     cublasLtMatmulHeuristicResult_t results[], int *returned))                                    \
  X(matmulAlgoCheck, cublasLtMatmulAlgoCheck, cublasStatus_t,                                      \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                 \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                 \
     const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result))                   \
  X(matmul, cublasLtMatmul, cublasStatus_t,                                                        \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,         \
     cublasLtMatrixLayout_t aLayout, const void *b, cublasLtMatrixLayout_t bLayout,                \
     const void *beta, const void *c, cublasLtMatrixLayout_t cLayout, void *d,                     \
     cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo, void *workspace,            \
     size_t workspaceBytes, CUstream stream))

} // namespace psrt::cuda

#endif
