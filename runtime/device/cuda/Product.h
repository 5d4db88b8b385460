// One product of matrices as cuBLASLt has it: descriptor, layouts, and the algorithm chosen for
// them.
#ifndef PSRT_DEVICE_CUDA_PRODUCT_H
#define PSRT_DEVICE_CUDA_PRODUCT_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/CublasLt.h"

namespace psrt::cuda {

/// A batch of products with one distance from each to the next, in elements.
struct ProductBatch {
  int64_t count = 1, lhs = 0, rhs = 0, out = 0;
};

/// cuBLASLt's matrices are of columns: a row-major out = lhs rhs is its out^T = rhs^T lhs^T, so A
/// is rhs and B is lhs. Sums are of f32 (TF32 with PSRT_TF32=1) or of f64, rounded once.
class Product {
public:
  /// For addresses that are multiples of `alignment`.
  Product(const Blas &blas, const MatmulOp &op, const ProductBatch &batch, bool hasBias,
          int64_t alignment);
  ~Product();
  Product(const Product &) = delete;
  Product &operator=(const Product &) = delete;
  /// Enqueues it; `bias` may be null, and is where the product has none.
  void run(CUstream stream, const void *lhs, const void *rhs, void *out, const void *bias,
           bool accumulate) const;

private:
  void describe(const MatmulOp &op, bool hasBias);
  void choose(const MatmulOp &op, int64_t alignment);
  cublasLtMatrixLayout_t makeLayout(Dtype dtype, int64_t rows, int64_t columns, int64_t ld,
                                    const ProductBatch &batch, int64_t distance);
  template <typename T> void set(cublasLtMatmulDescAttributes_t attribute, T value) const;

  const Blas &blas;
  const CublasLt &library;
  bool isDouble;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

} // namespace psrt::cuda

#endif
