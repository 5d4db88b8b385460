// Defines one cuBLASLt matmul: its descriptor, its layouts and the chosen algorithm.
#ifndef PSRT_DEVICE_CUDA_CUBLASLTMATMUL_H
#define PSRT_DEVICE_CUDA_CUBLASLTMATMUL_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/CublasLt.h"
#include <optional>
#include <string>
#include <vector>

namespace psrt::cuda {

/// A batch of matmuls with fixed strides, in elements, between consecutive matmuls.
struct MatmulBatch {
  int64_t count = 1, lhs = 0, rhs = 0, out = 0;
};

/// Device addresses of one run's operands and results.
struct MatmulData {
  const void *lhs = nullptr, *rhs = nullptr;
  void *out = nullptr;
  void *vector = nullptr; ///< bias or bias gradient, or null
  /// The inputs of the GELU, which a GELU epilogue writes or reads. Null if there are none.
  void *aux = nullptr;
  const void *lhsScale = nullptr, *rhsScale = nullptr; ///< scales of 8-bit operands
};

/// Runs a row-major matmul with cuBLASLt, whose matrices are column-major. The row-major out = lhs
/// rhs is the column-major out^T = rhs^T lhs^T, so cuBLASLt's operand A is rhs, and B is lhs. Sums
/// are accumulated in f32 or f64 and rounded once. With PSRT_TF32=1, f32 operands are first rounded
/// to TF32. Results of 8-bit operands are multiplied by the operands' scales.
class CublasLtMatmul {
public:
  /// An operation fused into the matmul.
  /// - Bias adds a vector.
  /// - LhsBiasGrad and RhsBiasGrad write a bias gradient: the sum of an operand over the inner dim.
  /// - Gelu applies the GELU to the result. GeluAux also writes the pre-activation to `aux`, a
  ///   matrix shaped like the result.
  /// - GeluGrad multiplies the result by the GELU's derivative at `aux`.
  enum class Epilogue {
    None,
    Bias,
    LhsBiasGrad,
    RhsBiasGrad,
    Gelu,
    GeluBias,
    GeluAux,
    GeluAuxBias,
    GeluGrad,
  };

  /// Prepares a matmul whose addresses are multiples of `alignment` bytes. May measure algorithms
  /// on separately allocated memory. If cuBLASLt does not support the matmul, the constructor
  /// fails. Exception: with a bias gradient, a GELU or 8-bit operands, isOffered() returns false
  /// instead.
  CublasLtMatmul(const Blas &blas, const MatmulOp &op, const MatmulBatch &batch, Epilogue epilogue,
                 int64_t alignment);
  ~CublasLtMatmul();
  CublasLtMatmul(const CublasLtMatmul &) = delete;
  CublasLtMatmul &operator=(const CublasLtMatmul &) = delete;
  /// Returns true if cuBLASLt offers the matmul, so that run() may be called.
  bool isOffered() const { return offered; }
  /// Returns a description of all properties that affect the matmul's speed.
  const std::string &getKind() const { return kind; }
  /// Enqueues the matmul. With `accumulate`, the result is added to `out`.
  void run(CUstream stream, const MatmulData &data, bool accumulate) const;

private:
  using Algorithm = cublasLtMatmulAlgo_t;
  struct Matrix {
    cublasLtMatrixLayout_t layout = nullptr;
    size_t bytes = 0;        ///< from the start of the first element to the end of the last one
    std::string description; ///< properties that may affect the choice of an algorithm
  };

  Matrix makeMatrix(Dtype dtype, int64_t rows, int64_t columns, int64_t ld,
                    const MatmulBatch &batch, int64_t distance);
  template <typename T> void set(cublasLtMatmulDescAttributes_t attribute, T value) const;
  std::string describe(const MatmulOp &op, int64_t alignment) const;
  void setEpilogue(const MatmulOp &op, int64_t alignment);
  void setScales(const void *ofLhs, const void *ofRhs) const;
  void setAux(const MatmulOp &op, int64_t ld, int64_t alignment);
  Algorithm choose(const MatmulOp &op, int64_t alignment);
  std::vector<Algorithm> askFor(int most, const MatmulOp &op, int64_t alignment) const;
  bool isUsable(const Algorithm &algorithm) const;
  std::optional<Algorithm> measure(const std::vector<Algorithm> &offered) const;
  cublasStatus_t enqueue(CUstream stream, const Algorithm &algorithm, const MatmulData &data,
                         void *workspace, bool accumulate) const;

  const Blas &blas;
  const CublasLt &library;
  bool isDouble, isFloat8, offered = true;
  Epilogue epilogue;
  size_t vectorBytes = 0; ///< bytes of the epilogue's vector, or 0
  bool hasAux = false;
  cublasLtMatmulDesc_t desc = nullptr;
  std::string description; ///< properties of the descriptor
  std::string kind;
  Matrix a, b, d;
  Algorithm algorithm{};
};

} // namespace psrt::cuda

#endif
