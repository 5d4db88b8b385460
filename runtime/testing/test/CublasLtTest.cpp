// Compares matmuls of the fake cuBLASLt with plain loops in f64, and tests which matmuls the fake
// refuses.
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
          Case problem;
          problem.transA = transA;
          problem.transB = transB;
          problem.rowOrder = rowOrder;
          problem.gap = gap;
          check(problem, 1e-5);
        }
}

TEST_F(CublasLtTest, batches_alpha_and_beta) {
  Case problem;
  problem.batches = 3;
  problem.gap = 2;
  problem.alpha = 0.5;
  problem.beta = -2;
  check(problem, 1e-5);
  problem.type = problem.resultType = CUDA_R_64F;
  problem.compute = CUBLAS_COMPUTE_64F;
  problem.scale = CUDA_R_64F;
  check(problem, 1e-14);
}

TEST_F(CublasLtTest, sixteen_bit_floats) {
  for (int32_t type : {CUDA_R_16F, CUDA_R_16BF})
    for (int32_t resultType : {type, int32_t(CUDA_R_32F)}) {
      Case problem;
      problem.type = type;
      problem.resultType = resultType;
      problem.beta = 1;
      check(problem, resultType == CUDA_R_32F ? 1e-5 : type == CUDA_R_16F ? 1e-3 : 1e-2);
    }
}

TEST_F(CublasLtTest, larger_than_the_panels_of_its_loops) {
  Case problem;
  problem.m = 33;
  problem.n = 300;
  problem.k = 530;
  check(problem, 2e-5);
}

TEST_F(CublasLtTest, tf32_keeps_ten_fraction_bits) {
  Case problem;
  problem.k = 64;
  problem.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  check(problem, 5e-3);
  EXPECT_EQ(1.0f, toTf32(1.0f + 1.0f / 4096));
  EXPECT_EQ(1.0f + 1.0f / 1024, toTf32(1.0f + 1.0f / 1024));
}

TEST_F(CublasLtTest, a_bias_with_one_number_per_row) {
  Case problem;
  problem.epilogue = CUBLASLT_EPILOGUE_BIAS;
  problem.beta = 1;
  check(problem, 1e-5);
  problem.type = problem.resultType = CUDA_R_16BF;
  check(problem, 1e-2);
}

TEST_F(CublasLtTest, bias_gradients_of_a_and_of_b) {
  for (uint32_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << epilogue << transposed);
      Case problem;
      problem.epilogue = epilogue;
      problem.transA = transposed;
      problem.transB = !transposed;
      problem.gap = 2;
      problem.beta = 1;
      checkBiasGrad(problem, 1e-5);
      problem.type = CUDA_R_16BF;
      checkBiasGrad(problem, 1e-5);
      problem.resultType = CUDA_R_16BF;
      checkBiasGrad(problem, 1e-2);
    }
}

TEST_F(CublasLtTest, bias_gradients_are_checked_for_order) {
  Case problem;
  problem.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  prepare(problem);
  LT_OK(heuristic());
  LT_OK(multiply());
  testing::internal::CaptureStderr();
  OK(cu.memsetD8Async(biases.data + 4 * (problem.n - 1), 0, 4, newStream()));
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
      Case problem;
      problem.epilogue = epilogue;
      problem.type = problem.resultType = type;
      problem.gap = 2;
      problem.beta = 1;
      check(problem, tolerance);
      if (epilogue == CUBLASLT_EPILOGUE_DGELU || !(epilogue & kHasAux))
        continue;
      aux.bytes = download<char>(aux.data, aux.bytes.size(), stream);
      for (int64_t i = 0; i < problem.m; ++i)
        for (int64_t j = 0; j < problem.n; ++j)
          ASSERT_NEAR(expectedSum(0, i, j), aux.at(0, i, j), 4 * tolerance);
    }
}

TEST_F(CublasLtTest, the_aux_matrix_of_a_gelu_is_checked) {
  Case problem;
  problem.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  prepare(problem);
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
  for (int64_t ld : {int64_t(0), problem.m, aux.layout.ld - 8}) {
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, heuristic());
  }
}

TEST_F(CublasLtTest, gelus_may_be_unsupported) {
  auto expectUnsupported = [&](const Case &problem) {
    prepare(problem);
    EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  };
  Case problem;
  problem.epilogue = CUBLASLT_EPILOGUE_GELU_BIAS;
  problem.type = CUDA_R_16BF; // to f32
  expectUnsupported(problem);
  problem = {};
  problem.epilogue = CUBLASLT_EPILOGUE_GELU;
  problem.batches = 2;
  expectUnsupported(problem);
  problem.batches = 1;
  prepare(problem);
  LT_OK(heuristic());
  setenv("PSRT_FAKE_GELU", "0", 1);
  EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  unsetenv("PSRT_FAKE_GELU");
}

TEST_F(CublasLtTest, a_vector_needs_the_announced_alignment) {
  Case problem;
  problem.epilogue = CUBLASLT_EPILOGUE_BIAS;
  prepare(problem);
  LT_OK(heuristic());
  CUdeviceptr vector = allocate<float>(problem.m + 1) + 4;
  set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  EXPECT_EQ(CUBLAS_STATUS_INVALID_VALUE, multiply());
  LT_OK(heuristic());
  LT_OK(multiply());
  OK(cu.streamSynchronize(stream));
}

TEST_F(CublasLtTest, fp8_with_scales) {
  Case problem;
  problem.m = problem.n = 16;
  problem.k = 32;
  problem.transA = true;
  problem.scaleA = 2;
  problem.scaleB = 0.25f;
  for (int32_t resultType : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    problem.type = CUDA_R_8F_E4M3;
    problem.resultType = resultType;
    check(problem, resultType == CUDA_R_32F ? 1e-5 : 1e-2);
    problem.typeB = CUDA_R_8F_E5M2;
    check(problem, resultType == CUDA_R_32F ? 1e-5 : 1e-2);
  }
  problem.resultType = CUDA_R_8F_E4M3;
  problem.scaleD = 4;
  check(problem, 0.07);
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
  EXPECT_EQ(0x38, toFp8(1.0625, CUDA_R_8F_E4M3)); // a tie rounds to even
  EXPECT_EQ(0x3a, toFp8(1.1875, CUDA_R_8F_E4M3));
}

TEST_F(CublasLtTest, factors_on_the_device_are_read_in_stream_order) {
  Case problem;
  problem.alpha = 3;
  prepare(problem);
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

TEST_F(CublasLtTest, matmuls_are_captured) {
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

TEST_F(CublasLtTest, matmuls_are_checked_for_order) {
  prepare({});
  LT_OK(heuristic());
  LT_OK(multiply());
  testing::internal::CaptureStderr();
  OK(cu.memsetD8Async(d.data, 0, 4, newStream()));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));
  std::string messages = testing::internal::GetCapturedStderr();
  EXPECT_NE(std::string::npos, messages.find("'cublasLtMatmul algorithm 0'")) << messages;
}

TEST_F(CublasLtTest, a_requested_workspace_is_needed) {
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

TEST_F(CublasLtTest, mismatched_arguments_are_refused) {
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

TEST_F(CublasLtTest, matmuls_without_a_kernel_are_not_supported) {
  auto expectUnsupported = [&](const Case &problem) {
    prepare(problem);
    EXPECT_EQ(CUBLAS_STATUS_NOT_SUPPORTED, heuristic());
  };
  Case problem;
  problem.typeB = CUDA_R_16F;
  expectUnsupported(problem);
  problem = {};
  problem.resultType = CUDA_R_16F;
  expectUnsupported(problem);
  problem = {};
  problem.type = problem.resultType = CUDA_R_16BF;
  problem.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  expectUnsupported(problem);
  problem = {};
  problem.rowOrder = true;
  problem.epilogue = CUBLASLT_EPILOGUE_BIAS;
  expectUnsupported(problem);
  problem = {};
  problem.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  problem.batches = 2;
  expectUnsupported(problem);
  problem.batches = 1;
  problem.type = problem.resultType = CUDA_R_64F;
  problem.compute = CUBLAS_COMPUTE_64F;
  problem.scale = CUDA_R_64F;
  expectUnsupported(problem);
  problem = {};
  problem.type = CUDA_R_8F_E4M3;
  problem.m = problem.n = problem.k = 16;
  expectUnsupported(problem); // only a transposed op(A) is supported
  problem.transA = true;
  problem.m = 24;
  expectUnsupported(problem);
  problem.m = 16;
  prepare(problem);
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
