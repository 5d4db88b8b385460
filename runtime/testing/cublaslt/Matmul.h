// One matmul D = alpha op(A) op(B) + beta C, with or without a bias: whether cuBLASLt would take
// it, what it touches, and its value.
#ifndef PSRT_TESTING_CUBLASLT_MATMUL_H
#define PSRT_TESTING_CUBLASLT_MATMUL_H

#include "runtime/testing/cublaslt/Algorithms.h"
#include "runtime/testing/cublaslt/Descriptors.h"
#include "runtime/testing/driver/Fake.h"
#include <string>
#include <vector>

namespace psrt::fake {

struct Matmul {
  MatmulDesc desc;
  Layout a, b, c, d;
  // The rest is of cublasLtMatmul; pointers are device pointers.
  const void *aData = nullptr, *bData = nullptr, *cData = nullptr;
  void *dData = nullptr, *workspace = nullptr;
  Algorithm algorithm;             ///< of which it uses so much
  double alpha = 1, beta = 0;      ///< of pointer mode HOST
  const void *alphaData = nullptr; ///< of pointer mode DEVICE
  const void *betaData = nullptr;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return desc.transA ? a.rows : a.columns; }

  /// Whether it writes the sums of A, or of B, over the inner dim.
  bool sumsA() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADA; }
  bool sumsB() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  /// Whether a bias is added, D is the GELU of the sum, what that is of is written or read, and D
  /// is the sum times the GELU's derivative.
  bool hasBias() const;
  bool hasGelu() const;
  bool hasAux() const;
  bool hasGeluGrad() const { return desc.epilogue == CUBLASLT_EPILOGUE_DGELU; }
  /// Aux as D lies.
  Layout auxLayout() const;
  /// Of the bias, or of sums.
  uint64_t vectorLength() const { return sumsB() ? n() : m(); }
  /// The type of the bias, also where no attribute says it.
  int32_t biasType() const;

  /// INVALID_VALUE where the shapes do not fit, NOT_SUPPORTED where cuBLASLt has no such matmul.
  cublasStatus_t check() const;
  /// The same for the pointers.
  cublasStatus_t checkPointers() const;
  /// What it reads and writes. Operands in very many pieces are left out.
  std::vector<PsrtFakeAccess> accesses() const;
  /// For logs: cublasLtMatmul, and which algorithm.
  std::string name() const;
  void compute() const;
};

size_t typeBytes(int32_t type);
bool isFp8(int32_t type);

} // namespace psrt::fake

#endif
