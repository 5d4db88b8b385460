// Defines the fixture of matmul tests: random matrices on the device and their matmul in f64.
#ifndef PSRT_TESTING_TEST_CUBLASLTFIXTURE_H
#define PSRT_TESTING_TEST_CUBLASLTFIXTURE_H

#include "runtime/testing/cublaslt/Elements.h"
#include "runtime/testing/cublaslt/Matmul.h"
#include "runtime/testing/test/FakeFixture.h"
#include <algorithm>
#include <cmath>
#include <random>

namespace psrt::fake {

using cuda::FakeTest;

/// The functions of the library, loaded from its path.
struct CublasLt {
  void *library = dlopen(PSRT_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
#define PSRT_MEMBER(name, symbol, result, arguments)                                               \
  result(*name) arguments = reinterpret_cast<result(*) arguments>(dlsym(library, #symbol));
  PSRT_CUBLASLT_FUNCTIONS(PSRT_MEMBER)
#undef PSRT_MEMBER
};

#define LT_OK(call) ASSERT_EQ(CUBLAS_STATUS_SUCCESS, call)

/// Parameters of a test's matmul; layouts are derived from them.
struct Case {
  int32_t type = CUDA_R_32F, resultType = CUDA_R_32F;
  int32_t compute = CUBLAS_COMPUTE_32F, scale = CUDA_R_32F;
  bool transA = false, transB = false, rowOrder = false;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int64_t m = 5, n = 7, k = 9, gap = 0;
  int batches = 1;
  double alpha = 1, beta = 0;
  int32_t typeB = -1;
  float scaleA = 1, scaleB = 1, scaleD = 1;
};

/// A matrix of random numbers, on the host and on the device.
struct Matrix {
  Layout layout;
  std::vector<char> bytes;
  CUdeviceptr data = 0;

  double at(int64_t batch, int64_t i, int64_t j) const {
    return loadElement(bytes.data(), layout.type,
                       batch * layout.batchStride + i * layout.rowStep() + j * layout.columnStep());
  }
};

class CublasLtTest : public FakeTest {
protected:
  void SetUp() override {
    FakeTest::SetUp();
    stream = newStream();
    LT_OK(lt.create(&handle));
    LT_OK(lt.matmulPreferenceCreate(&preference));
  }

  void TearDown() override {
    LT_OK(lt.matmulPreferenceDestroy(preference));
    LT_OK(lt.destroy(handle));
    FakeTest::TearDown();
  }

  Matrix matrix(int32_t type, int64_t rows, int64_t columns, const Case &problem) {
    Matrix made;
    int64_t lines = problem.rowOrder ? rows : columns;
    int64_t ld = (problem.rowOrder ? columns : rows) + problem.gap;
    int64_t stride = ld * lines + problem.gap;
    made.layout = {type,
                   uint64_t(rows),
                   uint64_t(columns),
                   ld,
                   problem.rowOrder ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL,
                   problem.batches,
                   stride};
    int64_t count = stride * problem.batches;
    made.bytes.resize(size_t(count) * typeBytes(type));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < count; ++i)
      storeElement(made.bytes.data(), type, i, uniform(random));
    made.data = upload(made.bytes, stream);
    return made;
  }

  cublasLtMatrixLayout_t describe(const Layout &layout) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(0, lt.matrixLayoutCreate(&made, cudaDataType(layout.type), layout.rows,
                                       layout.columns, layout.ld));
    EXPECT_EQ(0, lt.matrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &layout.order, 4));
    EXPECT_EQ(0, lt.matrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                             &layout.batches, 4));
    EXPECT_EQ(0, lt.matrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &layout.batchStride, 8));
    return made;
  }

  template <typename T>
  void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(0, lt.matmulDescSetAttribute(desc, attribute, &value, sizeof(value)));
  }

  cublasLtMatmulDesc_t describe(const Case &problem) {
    cublasLtMatmulDesc_t desc = nullptr;
    EXPECT_EQ(0, lt.matmulDescCreate(&desc, cublasComputeType_t(problem.compute),
                                     cudaDataType(problem.scale)));
    set(desc, CUBLASLT_MATMUL_DESC_TRANSA, int32_t(problem.transA));
    set(desc, CUBLASLT_MATMUL_DESC_TRANSB, int32_t(problem.transB));
    if (problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, problem.epilogue);
    return desc;
  }

  void prepare(const Case &problem) {
    now = problem;
    int32_t typeB = problem.typeB < 0 ? problem.type : problem.typeB;
    a = matrix(problem.type, problem.transA ? problem.k : problem.m,
               problem.transA ? problem.m : problem.k, problem);
    b = matrix(typeB, problem.transB ? problem.n : problem.k,
               problem.transB ? problem.k : problem.n, problem);
    c = matrix(isFp8(problem.resultType) ? CUDA_R_16BF : problem.resultType, problem.m, problem.n,
               problem);
    d = matrix(problem.resultType, problem.m, problem.n, problem);
    bool isOfColumns = problem.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    biases = matrix(problem.resultType, isOfColumns ? problem.n : problem.m, 1, {});
    aux = matrix(problem.resultType, problem.m, problem.n, {.gap = (8 - problem.m % 8) % 8});
    desc = describe(problem);
    layouts = {describe(a.layout), describe(b.layout), describe(c.layout), describe(d.layout)};
    if (problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, biases.data);
    if (problem.epilogue & kHasAux) {
      set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data);
      set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.layout.ld);
    }
    if (isFp8(problem.type)) {
      set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, upload<float>({problem.scaleA}, stream));
      set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, upload<float>({problem.scaleB}, stream));
      set(desc, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, upload<float>({problem.scaleD}, stream));
    }
  }

  cublasStatus_t heuristic() {
    int found = -1;
    cublasStatus_t status =
        lt.matmulAlgoGetHeuristic(handle, desc, layouts[0], layouts[1], layouts[2], layouts[3],
                                  preference, 1, &result, &found);
    EXPECT_EQ(status == CUBLAS_STATUS_SUCCESS ? 1 : 0, found);
    return status;
  }

  cublasStatus_t multiply(CUdeviceptr workspace = 0, size_t workspaceBytes = 0) {
    float alpha = float(now.alpha), beta = float(now.beta);
    bool wide = now.scale == CUDA_R_64F;
    auto at = [](CUdeviceptr pointer) { return reinterpret_cast<void *>(pointer); };
    return lt.matmul(handle, desc, wide ? static_cast<void *>(&now.alpha) : &alpha, at(a.data),
                     layouts[0], at(b.data), layouts[1],
                     wide ? static_cast<void *>(&now.beta) : &beta, at(c.data), layouts[2],
                     at(d.data), layouts[3], &result.algo, at(workspace), workspaceBytes, stream);
  }

  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }

  double expected(int64_t batch, int64_t i, int64_t j) const {
    constexpr double step = 1e-5;
    double sum = expectedSum(batch, i, j);
    if (now.epilogue == CUBLASLT_EPILOGUE_DGELU)
      sum *= (gelu(aux.at(batch, i, j) + step) - gelu(aux.at(batch, i, j) - step)) / (2 * step);
    return (now.epilogue & CUBLASLT_EPILOGUE_GELU ? gelu(sum) : sum) * now.scaleD;
  }

  /// Returns the expected sum before an activation.
  double expectedSum(int64_t batch, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t p = 0; p < now.k; ++p)
      sum += (now.transA ? a.at(batch, p, i) : a.at(batch, i, p)) *
             (now.transB ? b.at(batch, j, p) : b.at(batch, p, j));
    sum *= now.alpha * now.scaleA * now.scaleB;
    if (now.beta != 0)
      sum += now.beta * c.at(batch, i, j);
    return sum + (now.epilogue & CUBLASLT_EPILOGUE_BIAS ? biases.at(0, i, 0) : 0);
  }

  /// Runs the prepared matmul and compares the result. The allowed error of an element is
  /// `tolerance` * max(1, |expected element|).
  void expectMatmul(double tolerance) {
    LT_OK(heuristic());
    LT_OK(multiply());
    std::vector<char> before = d.bytes;
    d.bytes = download<char>(d.data, d.bytes.size(), stream);
    for (int64_t batch = 0; batch < now.batches; ++batch)
      for (int64_t i = 0; i < now.m; ++i)
        for (int64_t j = 0; j < now.n; ++j) {
          double value = expected(batch, i, j);
          ASSERT_NEAR(value, d.at(batch, i, j), tolerance * std::max(1.0, std::fabs(value)))
              << batch << ' ' << i << ' ' << j;
          Layout &l = d.layout;
          int64_t at = batch * l.batchStride + i * l.rowStep() + j * l.columnStep();
          storeElement(before.data(), l.type, at, loadElement(d.bytes.data(), l.type, at));
        }
    EXPECT_EQ(before, d.bytes) << "gaps must not be overwritten";
  }

  /// Runs and compares the matmul and its bias gradient.
  void checkBiasGrad(const Case &problem, double tolerance) {
    check(problem, tolerance);
    biases.bytes = download<char>(biases.data, biases.bytes.size(), stream);
    bool isA = problem.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (int64_t i = 0; i < (isA ? now.m : now.n); ++i) {
      double sum = 0;
      for (int64_t p = 0; p < now.k; ++p)
        sum += isA          ? (now.transA ? a.at(0, p, i) : a.at(0, i, p))
               : now.transB ? b.at(0, i, p)
                            : b.at(0, p, i);
      ASSERT_NEAR(sum, biases.at(0, i, 0), tolerance * std::max(1.0, std::fabs(sum))) << i;
    }
  }

  void check(const Case &problem, double tolerance) {
    prepare(problem);
    expectMatmul(tolerance);
  }

  static constexpr uint32_t kHasAux = 128; ///< bit of epilogues with aux
  inline static CublasLt lt;
  std::mt19937 random{7};
  CUstream stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t result = {};
  Case now;
  Matrix a, b, c, d, biases, aux;
  cublasLtMatmulDesc_t desc = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts;
};

} // namespace psrt::fake

#endif
