// Compares CudnnApi.h with NVIDIA's cudnn_graph.h.
#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include "runtime/testing/test/DeclarationsTest.h"

namespace psrt::cuda::own {

#define PSRT_OWN(name, symbol, result, arguments) using name = result(*) arguments;
PSRT_CUDNN_FUNCTIONS(PSRT_OWN)
#undef PSRT_OWN

} // namespace psrt::cuda::own

#include <cudnn_graph.h>
#include <gtest/gtest.h>

#define PSRT_SAME(name, symbol, result, arguments)                                                 \
  static_assert(psrt::cuda::CalledAlike<psrt::cuda::own::name, decltype(&::symbol)>::value,        \
                #symbol);
PSRT_CUDNN_FUNCTIONS(PSRT_SAME)

/// The header marks some values as deprecated, but older libraries need them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define PSRT_SAME_VALUE(name, value)                                                               \
  static_assert(int(psrt::cuda::name) == int(::name) && int(::name) == value, #name);
PSRT_CUDNN_VALUES(PSRT_SAME_VALUE)
#if CUDNN_VERSION >= 92100
PSRT_CUDNN_LATER_VALUES(PSRT_SAME_VALUE)
#endif

static_assert(sizeof(psrt::cuda::cudnnHandle_t) == sizeof(::cudnnHandle_t));
static_assert(sizeof(psrt::cuda::cudnnBackendDescriptor_t) == sizeof(::cudnnBackendDescriptor_t));
static_assert(sizeof(psrt::cuda::cudnnDataType_t) == sizeof(::cudnnDataType_t));
static_assert(sizeof(psrt::cuda::cudnnConvolutionMode_t) == sizeof(::cudnnConvolutionMode_t));
static_assert(sizeof(psrt::cuda::cudnnPointwiseMode_t) == sizeof(::cudnnPointwiseMode_t));
static_assert(sizeof(psrt::cuda::cudnnBackendHeurMode_t) == sizeof(::cudnnBackendHeurMode_t));
static_assert(sizeof(psrt::cuda::cudnnBackendNumericalNote_t) ==
              sizeof(::cudnnBackendNumericalNote_t));

/// All declarations are compared when this file is compiled; the test checks the header's version.
TEST(CudnnDeclarations, MatchTheHeader) { EXPECT_GE(CUDNN_VERSION, 90000); }
