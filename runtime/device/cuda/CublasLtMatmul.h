// One matmul of matrices as cuBLASLt has it: descriptor, layouts, and the algorithm chosen for
// them.
#ifndef PSRT_DEVICE_CUDA_CUBLASLTMATMUL_H
#define PSRT_DEVICE_CUDA_CUBLASLTMATMUL_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/CublasLt.h"
#include <optional>
#include <string>
#include <vector>

namespace psrt::cuda {

/// A batch of matmuls with one distance from each to the next, in elements.
struct MatmulBatch {
  int64_t count = 1, lhs = 0, rhs = 0, out = 0;
};

/// Where the numbers of one run are.
struct MatmulData {
  const void *lhs = nullptr, *rhs = nullptr;
  void *out = nullptr;
  void *vector = nullptr;                            ///< the bias, or where sums go; null: neither
  void *aux = nullptr;                               ///< null where the epilogue has none
  const void *lhsScale = nullptr, *rhsScale = nullptr; ///< of 8-bit operands
};

/// cuBLASLt's matrices are of columns: a row-major out = lhs rhs is its out^T = rhs^T lhs^T, so A
/// is rhs and B is lhs. Sums are of f32 (TF32 with PSRT_TF32=1) or of f64, rounded once; those of
/// 8-bit operands are multiplied by their units.
class CublasLtMatmul {
public:
  /// What a matmul does besides: adds a bias, or writes the sums of an operand, with one more
  /// vector; makes its result the GELU of the sum, writes that, or multiplies by the derivative,
  /// with one more matrix like the result (aux).
  enum class Epilogue {
    None,
    Bias,
    SumsOfLhs,
    SumsOfRhs,
    Gelu,
    GeluBias,
    GeluAux,
    GeluAuxBias,
    GeluGrad,
  };

  /// For addresses that are multiples of `alignment`. May measure algorithms, on memory of its own.
  /// Fails where cuBLASLt has no such matmul; one with sums or a GELU, or of 8-bit operands, is
  /// then not offered instead.
  CublasLtMatmul(const Blas &blas, const MatmulOp &op, const MatmulBatch &batch, Epilogue epilogue,
          int64_t alignment);
  ~CublasLtMatmul();
  CublasLtMatmul(const CublasLtMatmul &) = delete;
  CublasLtMatmul &operator=(const CublasLtMatmul &) = delete;
  /// Whether it may be run.
  bool isOffered() const { return offered; }
  /// All that its speed depends on.
  const std::string &getKind() const { return kind; }
  /// Enqueues it.
  void run(CUstream stream, const MatmulData &data, bool accumulate) const;

private:
  using Algorithm = cublasLtMatmulAlgo_t;
  struct Matrix {
    cublasLtMatrixLayout_t layout = nullptr;
    size_t bytes = 0;        ///< from the first number to behind the last
    std::string description; ///< that the choice of an algorithm may depend on
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
  size_t vectorBytes = 0; ///< 0: it has none
  bool hasAux = false;
  cublasLtMatmulDesc_t desc = nullptr;
  std::string description; ///< of the descriptor
  std::string kind;
  Matrix a, b, d;
  Algorithm algorithm{};
};

} // namespace psrt::cuda

#endif
