// Error codes that the fake returns and the runtime has no name for, and the names of all.
#ifndef PSRT_TESTING_DRIVER_CODES_H
#define PSRT_TESTING_DRIVER_CODES_H

#include "runtime/device/cuda/DriverApi.h"

namespace psrt::fake {

using namespace psrt::cuda;

enum : CUresult {
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

/// "CUDA_ERROR_...", or null.
const char *codeName(CUresult code);
/// A sentence about it, or null.
const char *codeText(CUresult code);

/// One line on stderr: why a call is about to fail, which a code alone does not say.
void complain(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

} // namespace psrt::fake

#endif
