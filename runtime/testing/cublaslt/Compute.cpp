// The value of a product: operands as plain matrices, then loops that the compiler vectorizes.
#include "runtime/testing/cublaslt/Elements.h"
#include "runtime/testing/cublaslt/Product.h"
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

/// c += a b, for the columns [begin, end) and the inner indices [first, last); all are row by row:
/// a is m x k, b k x n, c m x n. Four rows at a time share the loads of b.
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
  constexpr int64_t panel = 256; // of b: what a level-2 cache holds
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

/// Matrix number `batch` of an operand, transposed or not, row by row.
template <typename T>
std::vector<T> unpack(const void *data, const Layout &layout, bool turned, int64_t batch,
                      bool tf32) {
  int64_t rows = int64_t(turned ? layout.columns : layout.rows);
  int64_t columns = int64_t(turned ? layout.rows : layout.columns);
  int64_t down = turned ? layout.columnStep() : layout.rowStep();
  int64_t right = turned ? layout.rowStep() : layout.columnStep();
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

/// What the sums are multiplied with, and what C and the result are.
struct Factors {
  double alpha, beta, result;

  explicit Factors(const Product &product) : alpha(product.alpha), beta(product.beta), result(1) {
    const MatmulDesc &desc = product.desc;
    if (desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE) {
      alpha = loadElement(product.alphaData, desc.scale, 0);
      beta = loadElement(product.betaData, desc.scale, 0);
    }
    for (const float *scale : {desc.aScale, desc.bScale})
      alpha *= scale ? *scale : 1;
    if (desc.dScale && isFp8(product.d.type))
      result = *desc.dScale;
  }
};

/// The GELU that cuBLASLt has, by the tanh formula, and its derivative. $PSRT_FAKE_GELU=erf: the
/// other one.
double geluGate(double x, bool byErf) {
  constexpr double sqrtHalf = 0.70710678118654752440, sqrt2OverPi = 0.79788456080286535588;
  return byErf ? 0.5 * (1 + std::erf(x * sqrtHalf))
               : 0.5 * (1 + std::tanh(sqrt2OverPi * (x + 0.044715 * x * x * x)));
}
double geluSlope(double x, bool byErf) {
  constexpr double sqrt2OverPi = 0.79788456080286535588, density = 0.39894228040143267794;
  double gate = geluGate(x, byErf);
  double bell = byErf ? density * std::exp(-0.5 * x * x)
                      : 2 * gate * (1 - gate) * sqrt2OverPi * (1 + 3 * 0.044715 * x * x);
  return gate + x * bell;
}

/// What D is of a sum where an epilogue makes it something else.
struct Activation {
  const Product &product;
  bool isGelu = product.hasGelu(), isGrad = product.hasGeluGrad(), hasAux = product.hasAux();
  bool byErf = isErf();
  int32_t type = product.auxLayout().type;

  static bool isErf() {
    const char *kind = std::getenv("PSRT_FAKE_GELU");
    return kind && std::strcmp(kind, "erf") == 0;
  }
  /// Of the sum in that row and column, which goes to aux, or has another number there.
  double operator()(double sum, int64_t row, int64_t column) const {
    int64_t at = row + column * product.desc.auxLd;
    if (isGrad)
      return sum * geluSlope(loadElement(product.desc.aux, type, at), byErf);
    if (hasAux)
      storeElement(product.desc.aux, type, at, sum);
    return isGelu ? sum * geluGate(sum, byErf) : sum;
  }
};

/// Writes matrix number `batch` of D from the sums.
template <typename T>
void store(const Product &product, const Factors &factors, int64_t batch, const T *sums) {
  const Layout &c = product.c, &d = product.d;
  const MatmulDesc &desc = product.desc;
  bool biased = product.hasBias();
  Activation activate{product};
  int32_t biasType = product.biasType();
  for (int64_t i = 0; i < int64_t(d.rows); ++i) {
    T bias = biased ? T(loadElement(desc.bias, biasType, batch * desc.biasStride + i)) : T(0);
    for (int64_t j = 0; j < int64_t(d.columns); ++j) {
      T value = T(factors.alpha) * *sums++ + bias;
      int64_t atC = batch * c.batchStride + i * c.rowStep() + j * c.columnStep();
      if (factors.beta != 0)
        value += T(factors.beta) * T(loadElement(product.cData, c.type, atC));
      int64_t atD = batch * d.batchStride + i * d.rowStep() + j * d.columnStep();
      storeElement(product.dData, d.type, atD, activate(double(value), i, j) * factors.result);
    }
  }
}

/// Writes the sums of the rows of op(A), or of the columns of op(B), as they were unpacked.
template <typename T>
void storeSums(const Product &product, const std::vector<T> &a, const std::vector<T> &b) {
  auto length = int64_t(product.vectorLength()), k = int64_t(product.k());
  for (int64_t i = 0; i < length; ++i) {
    T sum = 0;
    for (int64_t p = 0; p < k; ++p)
      sum += product.sumsA() ? a[i * k + p] : b[p * length + i];
    storeElement(product.desc.bias, product.biasType(), i, double(sum));
  }
}

template <typename T> void computeIn(const Product &product) {
  auto m = int64_t(product.m()), n = int64_t(product.n()), k = int64_t(product.k());
  const MatmulDesc &desc = product.desc;
  bool tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  Factors factors(product);
  for (int64_t batch = 0; batch < product.d.batches; ++batch) {
    std::vector<T> a = unpack<T>(product.aData, product.a, desc.transA, batch, tf32);
    std::vector<T> b = unpack<T>(product.bData, product.b, desc.transB, batch, tf32);
    std::vector<T> sums(size_t(m * n));
    multiply(m, n, k, a.data(), b.data(), sums.data());
    if (product.sumsA() || product.sumsB())
      storeSums(product, a, b);
    store(product, factors, batch, sums.data());
  }
}

} // namespace

void Product::compute() const {
  if (algorithm.workspace)
    std::memset(workspace, 0xff, algorithm.workspace); // two products at once in one would show
  if (algorithm.microseconds)
    usleep(algorithm.microseconds);
  desc.compute == CUBLAS_COMPUTE_64F ? computeIn<double>(*this) : computeIn<float>(*this);
}

} // namespace psrt::fake
