// Computes a matmul: unpacks the operands to plain matrices, then runs loops that the compiler
// vectorizes.
#include "runtime/testing/cublaslt/Elements.h"
#include "runtime/testing/cublaslt/Matmul.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace psrt::fake {

namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(PSRT_FAKE_NO_CLONES)
#define PSRT_FAKE_CLONES                                                                           \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PSRT_FAKE_CLONES
#endif

/// Adds a * b to c for the columns [begin, end) and the inner indices [first, last). All matrices
/// are row-major: a is m x k, b is k x n, c is m x n. Four rows at a time share the loads of b.
template <typename T>
inline __attribute__((always_inline)) void
multiplyPanel(int64_t m, int64_t n, int64_t k, const T *a, const T *b, T *c, int64_t begin,
              int64_t end, int64_t first, int64_t last) {
  int64_t row = 0;
  for (; row + 4 <= m; row += 4) {
    const T *a0 = a + row * k, *a1 = a0 + k, *a2 = a1 + k, *a3 = a2 + k;
    T *__restrict c0 = c + row * n, *__restrict c1 = c0 + n, *__restrict c2 = c1 + n,
                  *__restrict c3 = c2 + n;
    for (int64_t p = first; p < last; ++p) {
      const T *line = b + p * n;
      T x0 = a0[p], x1 = a1[p], x2 = a2[p], x3 = a3[p];
      for (int64_t j = begin; j < end; ++j) {
        c0[j] += x0 * line[j];
        c1[j] += x1 * line[j];
        c2[j] += x2 * line[j];
        c3[j] += x3 * line[j];
      }
    }
  }
  for (; row < m; ++row)
    for (int64_t p = first; p < last; ++p)
      for (int64_t j = begin; j < end; ++j)
        c[row * n + j] += a[row * k + p] * b[p * n + j];
}

template <typename T>
inline __attribute__((always_inline)) void multiplyAll(int64_t m, int64_t n, int64_t k, const T *a,
                                                       const T *b, T *c) {
  constexpr int64_t panel = 256; // a panel of b with 256 x 256 numbers fits into a level-2 cache
  for (int64_t begin = 0; begin < n; begin += panel)
    for (int64_t first = 0; first < k; first += panel)
      multiplyPanel(m, n, k, a, b, c, begin, std::min(begin + panel, n), first,
                    std::min(first + panel, k));
}

PSRT_FAKE_CLONES
void multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiplyAll(m, n, k, a, b, c);
}

PSRT_FAKE_CLONES
void multiply(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
  multiplyAll(m, n, k, a, b, c);
}

/// Returns matrix number `batch` of an operand as a row-major matrix, optionally transposed.
template <typename T>
std::vector<T> unpack(const void *data, const Layout &layout, bool transposed, int64_t batch,
                      bool tf32) {
  int64_t rows = int64_t(transposed ? layout.columns : layout.rows);
  int64_t columns = int64_t(transposed ? layout.rows : layout.columns);
  int64_t down = transposed ? layout.columnStep() : layout.rowStep();
  int64_t right = transposed ? layout.rowStep() : layout.columnStep();
  std::vector<T> values(size_t(rows * columns));
  T *to = values.data();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      *to++ = T(loadElement(data, layout.type, batch * layout.batchStride + i * down + j * right));
  if (tf32)
    for (T &value : values)
      value = T(toTf32(float(value)));
  return values;
}

/// The factors of the matmul, of C and of the result D.
struct Factors {
  double alpha, beta, result;

  explicit Factors(const Matmul &matmul) : alpha(matmul.alpha), beta(matmul.beta), result(1) {
    const MatmulDesc &desc = matmul.desc;
    if (desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE) {
      alpha = loadElement(matmul.alphaData, desc.scale, 0);
      beta = loadElement(matmul.betaData, desc.scale, 0);
    }
    for (const float *scale : {desc.aScale, desc.bScale})
      alpha *= scale ? *scale : 1;
    if (desc.dScale && isFp8(matmul.d.type))
      result = *desc.dScale;
  }
};

/// Returns the GELU's gate: GELU(x) = x * gate. cuBLASLt uses the tanh formula; $PSRT_FAKE_GELU=erf
/// selects the erf formula.
double geluGate(double x, bool byErf) {
  constexpr double sqrtHalf = 0.70710678118654752440, sqrt2OverPi = 0.79788456080286535588;
  return byErf ? 0.5 * (1 + std::erf(x * sqrtHalf))
               : 0.5 * (1 + std::tanh(sqrt2OverPi * (x + 0.044715 * x * x * x)));
}
/// Returns the GELU's derivative.
double geluSlope(double x, bool byErf) {
  constexpr double sqrt2OverPi = 0.79788456080286535588, density = 0.39894228040143267794;
  double gate = geluGate(x, byErf);
  double bell = byErf ? density * std::exp(-0.5 * x * x)
                      : 2 * gate * (1 - gate) * sqrt2OverPi * (1 + 3 * 0.044715 * x * x);
  return gate + x * bell;
}

/// Applies the GELU epilogue to a sum.
struct Activation {
  const Matmul &matmul;
  bool isGelu = matmul.hasGelu(), isGrad = matmul.hasGeluGrad(), hasAux = matmul.hasAux();
  bool byErf = isErf();
  int32_t type = matmul.auxLayout().type;

  static bool isErf() {
    const char *kind = std::getenv("PSRT_FAKE_GELU");
    return kind && std::strcmp(kind, "erf") == 0;
  }
  /// Returns the result for a sum in a row and column. For a GELU with aux, stores the sum in aux.
  /// For the derivative, reads the pre-activation from aux.
  double operator()(double sum, int64_t row, int64_t column) const {
    int64_t at = row + column * matmul.desc.auxLd;
    if (isGrad)
      return sum * geluSlope(loadElement(matmul.desc.aux, type, at), byErf);
    if (hasAux)
      storeElement(matmul.desc.aux, type, at, sum);
    return isGelu ? sum * geluGate(sum, byErf) : sum;
  }
};

/// Writes matrix number `batch` of D from the sums.
template <typename T>
void store(const Matmul &matmul, const Factors &factors, int64_t batch, const T *sums) {
  const Layout &c = matmul.c, &d = matmul.d;
  const MatmulDesc &desc = matmul.desc;
  bool biased = matmul.hasBias();
  Activation activate{matmul};
  int32_t biasType = matmul.biasType();
  for (int64_t i = 0; i < int64_t(d.rows); ++i) {
    T bias = biased ? T(loadElement(desc.bias, biasType, batch * desc.biasStride + i)) : T(0);
    for (int64_t j = 0; j < int64_t(d.columns); ++j) {
      T value = T(factors.alpha) * *sums++ + bias;
      int64_t atC = batch * c.batchStride + i * c.rowStep() + j * c.columnStep();
      if (factors.beta != 0)
        value += T(factors.beta) * T(loadElement(matmul.cData, c.type, atC));
      int64_t atD = batch * d.batchStride + i * d.rowStep() + j * d.columnStep();
      storeElement(matmul.dData, d.type, atD, activate(double(value), i, j) * factors.result);
    }
  }
}

/// Writes the bias gradient: the row sums of the unpacked op(A), or the column sums of op(B).
template <typename T>
void storeBiasGrad(const Matmul &matmul, const std::vector<T> &a, const std::vector<T> &b) {
  auto length = int64_t(matmul.vectorLength()), k = int64_t(matmul.k());
  for (int64_t i = 0; i < length; ++i) {
    T sum = 0;
    for (int64_t p = 0; p < k; ++p)
      sum += matmul.writesABiasGrad() ? a[i * k + p] : b[p * length + i];
    storeElement(matmul.desc.bias, matmul.biasType(), i, double(sum));
  }
}

template <typename T> void computeIn(const Matmul &matmul) {
  auto m = int64_t(matmul.m()), n = int64_t(matmul.n()), k = int64_t(matmul.k());
  const MatmulDesc &desc = matmul.desc;
  bool tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  Factors factors(matmul);
  for (int64_t batch = 0; batch < matmul.d.batches; ++batch) {
    std::vector<T> a = unpack<T>(matmul.aData, matmul.a, desc.transA, batch, tf32);
    std::vector<T> b = unpack<T>(matmul.bData, matmul.b, desc.transB, batch, tf32);
    std::vector<T> sums(size_t(m * n));
    multiply(m, n, k, a.data(), b.data(), sums.data());
    if (matmul.writesABiasGrad() || matmul.writesBBiasGrad())
      storeBiasGrad(matmul, a, b);
    store(matmul, factors, batch, sums.data());
  }
}

} // namespace

void Matmul::compute() const {
  if (algorithm.workspace)
    std::memset(workspace, 0xff,
                algorithm.workspace); // reveals matmuls that share a workspace at the same time
  if (algorithm.microseconds)
    usleep(algorithm.microseconds);
  desc.compute == CUBLAS_COMPUTE_64F ? computeIn<double>(*this) : computeIn<float>(*this);
}

} // namespace psrt::fake
