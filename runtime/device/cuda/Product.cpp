// Describing products to cuBLASLt.
#include "runtime/device/cuda/Product.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace psrt::cuda {
namespace {

cudaDataType typeOf(Dtype dtype) {
  switch (dtype) {
  case Dtype::F32:
    return CUDA_R_32F;
  case Dtype::F64:
    return CUDA_R_64F;
  case Dtype::F16:
    return CUDA_R_16F;
  case Dtype::BF16:
    return CUDA_R_16BF;
  default:
    PSRT_FAIL(BadInput, "a product of %s is not built for cuda", dtypeName(dtype));
  }
}

cublasComputeType_t computeOf(Dtype dtype) {
  if (dtype == Dtype::F64)
    return CUBLAS_COMPUTE_64F;
  const char *tf32 = std::getenv("PSRT_TF32");
  bool isRounded = dtype == Dtype::F32 && tf32 && std::strcmp(tf32, "1") == 0;
  return isRounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// A row-major matrix of rows x columns, seen as one of columns: `transposed`, its columns are the
/// rows in memory.
struct View {
  bool transposed = false;
  int64_t rows = 0, columns = 0, ld = 0; ///< as it lies in memory, column after column
};

/// `rowStride` and `columnStride` of which one is 1, or of a dim of one place. The view is of the
/// transposed matrix.
View viewOf(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  bool dense = columnStride == 1 || columns == 1, alongRows = rowStride == 1 || rows == 1;
  View result{false, columns, rows, rowStride};
  if (!dense)
    result = {true, rows, columns, columnStride};
  int64_t others = result.transposed ? columns : rows;
  if (others == 1) // the distance to what is not there
    result.ld = result.rows;
  if ((!dense && !alongRows) || result.ld < result.rows)
    PSRT_FAIL(BadInput, "a product of a %lld x %lld matrix with strides %lld, %lld is not built",
              (long long)rows, (long long)columns, (long long)rowStride, (long long)columnStride);
  return result;
}

} // namespace

template <typename T> void Product::set(cublasLtMatmulDescAttributes_t attribute, T value) const {
  library.check(library.matmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
                "to describe a product");
}

cublasLtMatrixLayout_t Product::makeLayout(Dtype dtype, int64_t rows, int64_t columns, int64_t ld,
                                           const ProductBatch &batch, int64_t distance) {
  cublasLtMatrixLayout_t result = nullptr;
  library.check(
      library.matrixLayoutCreate(&result, typeOf(dtype), uint64_t(rows), uint64_t(columns), ld),
      "to describe a matrix");
  auto setLayout = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    library.check(library.matrixLayoutSetAttribute(result, attribute, &value, sizeof(value)),
                  "to describe a batch");
  };
  if (batch.count > 1) {
    setLayout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch.count));
    setLayout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance);
  }
  return result;
}

Product::Product(const Blas &blas, const MatmulOp &op, const ProductBatch &batch, bool hasBias,
                 int64_t alignment)
    : blas(blas), library(*blas.getLibrary()), isDouble(op.dtype == Dtype::F64) {
  View lhs = viewOf(op.m, op.k, op.lhs[2], op.lhs[3]);
  View rhs = viewOf(op.k, op.n, op.rhs[2], op.rhs[3]);
  View out = viewOf(op.m, op.n, op.out[2], op.out[3]);
  library.check(
      library.matmulDescCreate(&desc, computeOf(op.dtype), isDouble ? CUDA_R_64F : CUDA_R_32F),
      "to describe a product");
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(rhs.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(lhs.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (hasBias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_BIAS));
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(typeOf(op.outDtype)));
  }
  a = makeLayout(op.dtype, rhs.rows, rhs.columns, rhs.ld, batch, batch.rhs);
  b = makeLayout(op.dtype, lhs.rows, lhs.columns, lhs.ld, batch, batch.lhs);
  d = makeLayout(op.outDtype, out.rows, out.columns, out.ld, batch, batch.out);
  choose(op, alignment);
}

Product::~Product() {
  for (cublasLtMatrixLayout_t layout : {a, b, d})
    if (layout)
      library.matrixLayoutDestroy(layout);
  if (desc)
    library.matmulDescDestroy(desc);
}

void Product::choose(const MatmulOp &op, int64_t alignment) {
  /// Parts of a sum are added up in the type of the sum, in one order.
  constexpr auto reductionSchemes = cublasLtMatmulPreferenceAttributes_t(3);
  constexpr uint32_t inComputeType = 2;
  cublasLtMatmulPreference_t preference = nullptr;
  library.check(library.matmulPreferenceCreate(&preference), "to choose an algorithm");
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return library.matmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspaceBytes));
  prefer(reductionSchemes, inComputeType);
  for (auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(operand, uint32_t(alignment));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  cublasStatus_t status = library.matmulAlgoGetHeuristic(blas.getHandle(), desc, a, b, d, d,
                                                         preference, 1, &found, &count);
  library.matmulPreferenceDestroy(preference);
  std::string what = format("to choose an algorithm for a product %lldx%lldx%lld of %s",
                            (long long)op.m, (long long)op.n, (long long)op.k, dtypeName(op.dtype));
  if (status == CUBLAS_STATUS_SUCCESS && count == 0)
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  library.check(status, what.c_str());
  algorithm = found.algo;
}

void Product::run(CUstream stream, const void *lhs, const void *rhs, void *out, const void *bias,
                  bool accumulate) const {
  if (bias)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  float scales[] = {1, accumulate ? 1.0f : 0.0f};
  double wideScales[] = {1, accumulate ? 1.0 : 0.0};
  auto scale = [&](int i) -> const void * {
    return isDouble ? static_cast<const void *>(&wideScales[i]) : &scales[i];
  };
  library.check(library.matmul(blas.getHandle(), desc, scale(0), rhs, a, lhs, b, scale(1), out, d,
                               out, d, &algorithm, reinterpret_cast<void *>(blas.getWorkspace()),
                               kWorkspaceBytes, stream),
                "to multiply matrices");
}

} // namespace psrt::cuda
