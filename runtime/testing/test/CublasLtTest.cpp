// Matmuls of the fake against plain loops in f64, and what it refuses.
#include "runtime/testing/test/CublasLtFixture.h"
#include <chrono>

using namespace psrt::cuda;
using namespace psrt::fake;

TEST_F(CublasLtTest, all_transposes_and_orders) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (bool rowOrder : {false, true})
        for (int64_t gap : {0, 3}) {
          SCOPED_TRACE(testing::Message() << transA << transB << rowOrder << gap);
          Case what;
          what.transA = transA;
          what.transB = transB;
          what.rowOrder = rowOrder;
          what.gap = gap;
          check(what, 1e-5);
        }
}

TEST_F(CublasLtTest, batches_alpha_and_beta) {
  Case what;
  what.batches = 3;
  what.gap = 2;
  what.alpha = 0.5;
  what.beta = -2;
  check(what, 1e-5);
  what.type = what.resultType = CUDA_R_64F;
  what.compute = CUBLAS_COMPUTE_64F;
  what.scale = CUDA_R_64F;
  check(what, 1e-14);
}

TEST_F(CublasLtTest, sixteen_bit_floats) {
  for (int32_t type : {CUDA_R_16F, CUDA_R_16BF})
    for (int32_t resultType : {type, int32_t(CUDA_R_32F)}) {
      Case what;
      what.type = type;
      what.resultType = resultType;
      what.beta = 1;
      check(what, resultType == CUDA_R_32F ? 1e-5 : type == CUDA_R_16F ? 1e-3 : 1e-2);
    }
}

TEST_F(CublasLtTest, larger_than_the_panels_of_its_loops) {
  Case what;
  what.m = 33;
  what.n = 300;
  what.k = 530;
  check(what, 2e-5);
}

TEST_F(CublasLtTest, tf32_takes_ten_bits) {
  Case what;
  what.k = 64;
  what.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  check(what, 5e-3);
  EXPECT_EQ(1.0f, toTf32(1.0f + 1.0f / 4096));
  EXPECT_EQ(1.0f + 1.0f / 1024, toTf32(1.0f + 1.0f / 1024));
}

TEST_F(CublasLtTest, a_bias_of_a_row_each) {
  Case what;
  what.epilogue = CUBLASLT_EPILOGUE_BIAS;
  what.beta = 1;
  check(what, 1e-5);
  what.type = what.resultType = CUDA_R_16BF;
  check(what, 1e-2);
}

TEST_F(CublasLtTest, sums_of_a_and_of_b) {
  for (uint32_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << epilogue << transposed);
      Case what;
      what.epilogue = epilogue;
      what.transA = transposed;
      what.transB = !transposed;
      what.gap = 2;
      what.beta = 1;
      checkSums(what, 1e-5);
      what.type = CUDA_R_16BF;
      checkSums(what, 1e-5);
      what.resultType = CUDA_R_16BF;
      checkSums(what, 1e-2);
    }
}

TEST_F(CublasLtTest, sums_are_written_in_order) {
  Case what;
  what.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  prepare(what);
  LT_OK(heuristic());
  LT_OK(multiply());
  testing::internal::CaptureStderr();
  OK(cu.memsetD8Async(biases.data + 4 * (what.n - 1), 0, 4, newStream()));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));
  EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("cublasLtMatmul"));
}

TEST_F(CublasLtTest, gelu_and_its_derivative) {
  for (uint32_t epilogue :
       {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU})
    for (int32_t type : {CUDA_R_32F, CUDA_R_16BF}) {
      SCOPED_TRACE(testing::Message() << epilogue << ' ' << type);
      double tolerance = type == CUDA_R_32F ? 1e-5 : 1e-2;
      Case what;
      what.epilogue = epilogue;
      what.type = what.resultType = type;
      what.gap = 2;
      what.beta = 1;
      check(what, tolerance);
      if (epilogue == CUBLASLT_EPILOGUE_DGELU || !(epilogue & kHasAux))
        continue;
      aux.bytes = download<char>(aux.data, aux.bytes.size(), stream);
      for (int64_t i = 0; i < what.m; ++i)
        for (int64_t j = 0; j < what.n; ++j)
          ASSERT_NEAR(expectedSum(0, i, j), aux.at(0, i, j), 4 * tolerance);
    }
}

TEST_F(CublasLtTest, what_a_gelu_is_of_is_checked) {
  Case what;
  what.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  prepare(what);
  LT_OK(heuristic());
  LT_OK(multiply());
  testing::internal::CaptureStderr();
  OK(cu.memsetD8Async(aux.data, 0, 4, newStream()));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));
  EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("cublasLtMatmul"));
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data + 4);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, CUdeviceptr(0));
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  for (int64_t ld : {int64_t(0), what.m, aux.layout.ld - 8}) {
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  }
}

TEST_F(CublasLtTest, there_may_be_no_gelu) {
  auto expectNone = [&](const Case &what) {
    prepare(what);
    EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  };
  Case what;
  what.epilogue = CUBLASLT_EPILOGUE_GELU_BIAS;
  what.type = CUDA_R_16BF; // to f32
  expectNone(what);
  what = {};
  what.epilogue = CUBLASLT_EPILOGUE_GELU;
  what.batches = 2;
  expectNone(what);
  what.batches = 1;
  prepare(what);
  LT_OK(heuristic());
  setenv("PSRT_FAKE_GELU", "0", 1);
  EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  unsetenv("PSRT_FAKE_GELU");
}

TEST_F(CublasLtTest, a_vector_is_as_aligned_as_was_said) {
  Case what;
  what.epilogue = CUBLASLT_EPILOGUE_BIAS;
  prepare(what);
  LT_OK(heuristic());
  CUdeviceptr vector = allocate<float>(what.m + 1) + 4;
  set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  LT_OK(heuristic());
  LT_OK(multiply());
  OK(cu.streamSynchronize(stream));
}

TEST_F(CublasLtTest, fp8_with_scales) {
  Case what;
  what.m = what.n = 16;
  what.k = 32;
  what.transA = true;
  what.scaleA = 2;
  what.scaleB = 0.25f;
  for (int32_t resultType : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    what.type = CUDA_R_8F_E4M3;
    what.resultType = resultType;
    check(what, resultType == CUDA_R_32F ? 1e-5 : 1e-2);
    what.typeB = CUDA_R_8F_E5M2;
    check(what, resultType == CUDA_R_32F ? 1e-5 : 1e-2);
  }
  what.resultType = CUDA_R_8F_E4M3;
  what.scaleD = 4;
  check(what, 0.07);
}

TEST_F(CublasLtTest, fp8_numbers) {
  EXPECT_EQ(448.0f, fromFp8(0x7e, CUDA_R_8F_E4M3));
  EXPECT_TRUE(std::isnan(fromFp8(0x7f, CUDA_R_8F_E4M3)));
  EXPECT_EQ(57344.0f, fromFp8(0x7b, CUDA_R_8F_E5M2));
  EXPECT_TRUE(std::isinf(fromFp8(0xfc, CUDA_R_8F_E5M2)));
  EXPECT_EQ(0.001953125f, fromFp8(1, CUDA_R_8F_E4M3));
  for (int32_t type : {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2})
    for (int bits = 0; bits < 256; ++bits) {
      float value = fromFp8(uint8_t(bits), type);
      if (std::isfinite(value)) {
        EXPECT_EQ(bits, toFp8(value, type));
      }
    }
  EXPECT_EQ(0x7e, toFp8(1e9, CUDA_R_8F_E4M3));
  EXPECT_EQ(0xfe, toFp8(-449, CUDA_R_8F_E4M3));
  EXPECT_EQ(0x38, toFp8(1.0625, CUDA_R_8F_E4M3)); // half way: to even
  EXPECT_EQ(0x3a, toFp8(1.1875, CUDA_R_8F_E4M3));
}

TEST_F(CublasLtTest, factors_on_the_device_are_read_in_turn) {
  Case what;
  what.alpha = 3;
  prepare(what);
  set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t(CUBLASLT_POINTER_MODE_DEVICE));
  LT_OK(heuristic());
  CUdeviceptr factors = upload<float>({3, 0}, stream);
  auto at = [](CUdeviceptr pointer) { return reinterpret_cast<void *>(pointer); };
  LT_OK(lt.matmul(handle, desc, at(factors), at(a.data), layouts[0], at(b.data), layouts[1],
                  at(factors + 4), at(c.data), layouts[2], at(d.data), layouts[3], nullptr, nullptr,
                  0, stream));
  d.bytes = download<char>(d.data, d.bytes.size(), stream);
  EXPECT_NEAR(expected(0, 1, 2), d.at(0, 1, 2), 1e-5);
}

TEST_F(CublasLtTest, products_are_captured) {
  prepare({});
  LT_OK(heuristic());
  OK(cu.streamSynchronize(stream));
  CUgraph graph;
  CUgraphExec exec;
  OK(cu.streamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  LT_OK(multiply());
  OK(cu.streamEndCapture(stream, &graph));
  OK(cu.graphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) {
    OK(cu.memsetD8Async(d.data, 0, d.bytes.size(), stream));
    OK(cu.graphLaunch(exec, stream));
    d.bytes = download<char>(d.data, d.bytes.size(), stream);
    EXPECT_NEAR(expected(0, 1, 2), d.at(0, 1, 2), 1e-5);
  }
}

TEST_F(CublasLtTest, products_are_checked_for_order) {
  prepare({});
  LT_OK(heuristic());
  LT_OK(multiply());
  testing::internal::CaptureStderr();
  OK(cu.memsetD8Async(d.data, 0, 4, newStream()));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(std::string::npos, said.find("'cublasLtMatmul algorithm 0'")) << said;
}

TEST_F(CublasLtTest, a_workspace_that_was_asked_for_is_needed) {
  prepare({});
  uint64_t most = 1 << 20;
  LT_OK(lt.matmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                        sizeof(most)));
  LT_OK(heuristic());
  EXPECT_GT(result.workspaceSize, 0u);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply(0, 1 << 20));
  LT_OK(multiply(allocate<char>(1 << 20), 1 << 20));
  OK(cu.streamSynchronize(stream));
}

TEST_F(CublasLtTest, what_does_not_fit_is_refused) {
  prepare({});
  std::swap(layouts[0], layouts[1]);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  std::swap(layouts[0], layouts[1]);
  Layout narrow = a.layout;
  narrow.ld -= 1;
  layouts[0] = describe(narrow);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  Layout more = a.layout;
  more.batches = 2;
  layouts[0] = describe(more);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  layouts[0] = nullptr;
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  layouts[0] = describe(a.layout);
  LT_OK(heuristic());
  d.data += 2;
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  int64_t wide = 1;
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE,
            lt.matmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof(wide)));
  EXPECT_EQ(CUBLAS_STATUS_NOT_INITIALIZED,
            lt.matmulAlgoGetHeuristic(nullptr, desc, layouts[0], layouts[1], layouts[2], layouts[3],
                                      preference, 1, &result, &now.batches));
}

TEST_F(CublasLtTest, what_has_no_kernel_is_not_supported) {
  auto expectNone = [&](const Case &what) {
    prepare(what);
    EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  };
  Case what;
  what.typeB = CUDA_R_16F;
  expectNone(what);
  what = {};
  what.resultType = CUDA_R_16F;
  expectNone(what);
  what = {};
  what.type = what.resultType = CUDA_R_16BF;
  what.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  expectNone(what);
  what = {};
  what.rowOrder = true;
  what.epilogue = CUBLASLT_EPILOGUE_BIAS;
  expectNone(what);
  what = {};
  what.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  what.batches = 2;
  expectNone(what);
  what.batches = 1;
  what.type = what.resultType = CUDA_R_64F;
  what.compute = CUBLAS_COMPUTE_64F;
  what.scale = CUDA_R_64F;
  expectNone(what);
  what = {};
  what.type = CUDA_R_8F_E4M3;
  what.m = what.n = what.k = 16;
  expectNone(what); // only op(A) transposed
  what.transA = true;
  what.m = 24;
  expectNone(what);
  what.m = 16;
  prepare(what);
  LT_OK(heuristic());
  start({{"PSRT_FAKE_CAPABILITY", "8.0"}});
  EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  stream = newStream();
  prepare({});
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_DGELU_BGRAD));
  EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
}

TEST_F(CublasLtTest, statuses_have_names) {
  EXPECT_STREQ("CUBLAS_STATUS_NOT_SUPPORTED", lt.getStatusName(CUBLAS_STATUS_NOT_SUPPORTED));
  EXPECT_GE(lt.getVersion(), 130000u);
}

TEST_F(CublasLtTest, algorithms_are_offered_in_order_and_checked) {
  setenv("PSRT_FAKE_ALGORITHMS", "0,-,30000,0", 1);
  prepare({});
  std::vector<cublasLtMatmulHeuristicResult_t> offered(8);
  int count = 0;
  auto ask = [&](int most) {
    LT_OK(lt.matmulAlgoGetHeuristic(handle, desc, layouts[0], layouts[1], layouts[2], layouts[3],
                                    preference, most, offered.data(), &count));
  };
  auto look = [&](const cublasLtMatmulAlgo_t &bits) {
    cublasLtMatmulHeuristicResult_t found = {};
    return lt.matmulAlgoCheck(handle, desc, layouts[0], layouts[1], layouts[2], layouts[3], &bits,
                              &found);
  };
  ask(2);
  EXPECT_EQ(2, count);
  ask(8);
  EXPECT_EQ(4, count);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(i == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS, offered[i].state);
    EXPECT_EQ(offered[i].state, look(offered[i].algo));
  }
  EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, look({}));
  auto begin = std::chrono::steady_clock::now();
  result.algo = offered[2].algo;
  LT_OK(multiply());
  OK(cu.streamSynchronize(stream));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
  d.bytes = download<char>(d.data, d.bytes.size(), stream);
  EXPECT_NEAR(expected(0, 1, 2), d.at(0, 1, 2), 1e-5);
  unsetenv("PSRT_FAKE_ALGORITHMS");
}
