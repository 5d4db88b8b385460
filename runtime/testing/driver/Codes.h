// Declares error codes that only the fake returns, and the names and texts of all codes.
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

/// Returns the name, e.g. "CUDA_ERROR_INVALID_VALUE", or null.
const char *codeName(CUresult code);
/// Returns a description of the code, or null.
const char *codeText(CUresult code);

/// Prints one line to stderr with the reason for an error, which a code alone does not give.
void complain(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

} // namespace psrt::fake

#endif
