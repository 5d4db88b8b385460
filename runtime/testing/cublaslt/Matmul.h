// Describes one matmul D = alpha op(A) op(B) + beta C with an optional epilogue: whether cuBLASLt
// supports it, which memory it accesses, and its result.
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
  // Arguments of cublasLtMatmul; pointers are device pointers.
  const void *aData = nullptr, *bData = nullptr, *cData = nullptr;
  void *dData = nullptr, *workspace = nullptr;
  Algorithm algorithm;             ///< determines the workspace used
  double alpha = 1, beta = 0;      ///< used in pointer mode HOST
  const void *alphaData = nullptr; ///< used in pointer mode DEVICE
  const void *betaData = nullptr;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return desc.transA ? a.rows : a.columns; }

  /// Return true if the epilogue writes A's or B's bias gradient, i.e. its sums over the inner dim.
  bool writesABiasGrad() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADA; }
  bool writesBBiasGrad() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  /// Return true if the epilogue adds a bias, applies GELU, reads or writes the pre-activation
  /// (aux), or multiplies by GELU's derivative.
  bool hasBias() const;
  bool hasGelu() const;
  bool hasAux() const;
  bool hasGeluGrad() const { return desc.epilogue == CUBLASLT_EPILOGUE_DGELU; }
  /// Returns the layout of aux: the layout of D, but with the type and the leading dimension of
  /// aux.
  Layout auxLayout() const;
  /// Returns the length of the bias or bias gradient.
  uint64_t vectorLength() const { return writesBBiasGrad() ? n() : m(); }
  /// Returns the type of the bias, even if the attribute is not set.
  int32_t biasType() const;

  /// Returns INVALID_VALUE if the shapes do not match, or NOT_SUPPORTED if cuBLASLt lacks the
  /// matmul.
  cublasStatus_t check() const;
  /// Returns INVALID_VALUE if a pointer is null or misaligned, or NOT_SUPPORTED if an fp8 pointer
  /// is not aligned to 16 bytes.
  cublasStatus_t checkPointers() const;
  /// Returns the memory that the matmul accesses. Operands with too many separate pieces are
  /// omitted.
  std::vector<PsrtFakeAccess> accesses() const;
  /// Returns the name for logs: "cublasLtMatmul algorithm 0".
  std::string name() const;
  void compute() const;
};

size_t typeBytes(int32_t type);
bool isFp8(int32_t type);

} // namespace psrt::fake

#endif
