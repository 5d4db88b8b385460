// Compares NcclApi.h with NVIDIA's nccl.h.
#include "runtime/device/cuda/nccl/NcclApi.h"
#include "runtime/testing/test/DeclarationsTest.h"

namespace psrt::nccl::own {

#define PSRT_OWN(name, symbol, result, arguments) using name = result(*) arguments;
PSRT_NCCL_FUNCTIONS(PSRT_OWN)
PSRT_NCCL_OPTIONAL_FUNCTIONS(PSRT_OWN)
#undef PSRT_OWN

} // namespace psrt::nccl::own

#include <gtest/gtest.h>
#include <nccl.h>

#define PSRT_SAME(name, symbol, result, arguments)                                                 \
  static_assert(psrt::cuda::CalledAlike<psrt::nccl::own::name, decltype(&::symbol)>::value,        \
                #symbol);
PSRT_NCCL_FUNCTIONS(PSRT_SAME)
PSRT_NCCL_OPTIONAL_FUNCTIONS(PSRT_SAME)

static_assert(sizeof(psrt::nccl::ncclUniqueId) == sizeof(::ncclUniqueId));

// Our struct is a prefix of the header's.
static_assert(sizeof(psrt::nccl::ncclConfig_t) <= sizeof(::ncclConfig_t));
#define SAME_FIELD(name)                                                                           \
  static_assert(offsetof(psrt::nccl::ncclConfig_t, name) == offsetof(::ncclConfig_t, name), #name)
SAME_FIELD(size);
SAME_FIELD(magic);
SAME_FIELD(version);
SAME_FIELD(blocking);
SAME_FIELD(cgaClusterSize);
SAME_FIELD(minCTAs);
SAME_FIELD(maxCTAs);
SAME_FIELD(netName);
SAME_FIELD(splitShare);

#define SAME(name) static_assert(int(psrt::nccl::name) == int(::name), #name)
SAME(ncclSuccess);
SAME(ncclUnhandledCudaError);
SAME(ncclSystemError);
SAME(ncclInternalError);
SAME(ncclInvalidArgument);
SAME(ncclInvalidUsage);
SAME(ncclRemoteError);
SAME(ncclInProgress);
SAME(ncclInt8);
SAME(ncclUint8);
SAME(ncclInt32);
SAME(ncclInt64);
SAME(ncclFloat16);
SAME(ncclFloat32);
SAME(ncclFloat64);
SAME(ncclBfloat16);
SAME(ncclSum);
SAME(ncclMax);
SAME(ncclMin);

/// Most declarations are compared when this file is compiled.
TEST(NcclDeclarations, MatchTheHeader) {
  ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  psrt::nccl::ncclConfig_t ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.splitShare, theirs.splitShare);
}
