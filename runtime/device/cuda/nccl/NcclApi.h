// Declares the part of NCCL that the runtime uses, as of version 2.18; later versions are
// compatible. With its own declarations, the runtime builds without NCCL's header and links no
// library.
#ifndef PSRT_DEVICE_CUDA_NCCL_NCCLAPI_H
#define PSRT_DEVICE_CUDA_NCCL_NCCLAPI_H

#include "runtime/device/cuda/DriverApi.h"
#include <climits>
#include <cstddef>

namespace psrt::nccl {

using cuda::CUstream;

using ncclComm_t = struct ncclComm *;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclMin = 3 };
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};
inline constexpr int kSplitNoColor = -1;   ///< NCCL_SPLIT_NOCOLOR
inline constexpr int kUndefined = INT_MIN; ///< NCCL_CONFIG_UNDEF_INT

struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kUndefined;
  int cgaClusterSize = kUndefined;
  int minCTAs = kUndefined;
  int maxCTAs = kUndefined;
  const char *netName = nullptr;
  int splitShare = kUndefined;
};

/// X(name in Nccl, symbol, result, arguments)
#define PSRT_NCCL_FUNCTIONS(X)                                                                     \
  X(getVersion, ncclGetVersion, ncclResult_t, (int *version))                                      \
  X(getUniqueId, ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id))                               \
  X(commInitRankConfig, ncclCommInitRankConfig, ncclResult_t,                                      \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))               \
  X(commSplit, ncclCommSplit, ncclResult_t,                                                        \
    (ncclComm_t comm, int color, int key, ncclComm_t *made, ncclConfig_t *config))                 \
  X(commFinalize, ncclCommFinalize, ncclResult_t, (ncclComm_t comm))                               \
  X(commDestroy, ncclCommDestroy, ncclResult_t, (ncclComm_t comm))                                 \
  X(commAbort, ncclCommAbort, ncclResult_t, (ncclComm_t comm))                                     \
  X(commGetAsyncError, ncclCommGetAsyncError, ncclResult_t,                                        \
    (ncclComm_t comm, ncclResult_t * error))                                                       \
  X(getErrorString, ncclGetErrorString, const char *, (ncclResult_t result))                       \
  X(getLastError, ncclGetLastError, const char *, (ncclComm_t comm))                               \
  X(allReduce, ncclAllReduce, ncclResult_t,                                                        \
    (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,                 \
     ncclComm_t comm, CUstream stream))                                                            \
  X(reduceScatter, ncclReduceScatter, ncclResult_t,                                                \
    (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,                 \
     ncclComm_t comm, CUstream stream))                                                            \
  X(allGather, ncclAllGather, ncclResult_t,                                                        \
    (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,                \
     CUstream stream))                                                                             \
  X(send, ncclSend, ncclResult_t,                                                                  \
    (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                 \
     CUstream stream))                                                                             \
  X(recv, ncclRecv, ncclResult_t,                                                                  \
    (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream))    \
  X(groupStart, ncclGroupStart, ncclResult_t, ())                                                  \
  X(groupEnd, ncclGroupEnd, ncclResult_t, ())

/// Functions of NCCL 2.19 and later; null if the library lacks them.
#define PSRT_NCCL_OPTIONAL_FUNCTIONS(X)                                                            \
  X(commRegister, ncclCommRegister, ncclResult_t,                                                  \
    (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))                            \
  X(commDeregister, ncclCommDeregister, ncclResult_t, (const ncclComm_t comm, void *handle))

} // namespace psrt::nccl

#endif
