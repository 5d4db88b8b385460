// Defines the names and texts of the error codes.
#include "runtime/testing/driver/Codes.h"
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace psrt::fake {

namespace {

struct Code {
  CUresult code;
  const char *name, *text;
};

#define CODE(name, text) {name, #name, text}
const Code codes[] = {
    CODE(CUDA_SUCCESS, "no error"),
    CODE(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    CODE(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    CODE(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    CODE(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    CODE(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    CODE(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    CODE(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    CODE(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    CODE(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    CODE(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    CODE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported "
                                             "toolchain."),
    CODE(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    CODE(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    CODE(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    CODE(CUDA_ERROR_NOT_READY, "device not ready"),
    CODE(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    CODE(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    CODE(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    CODE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver "
                                            "combination"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during "
                                                "capture"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture "
                                          "sequences"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it "
                                              "began"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another "
                                              "stream"),
    CODE(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a "
                                    "capturing stream"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture "
                                                 "sequence from another thread"),
    CODE(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef CODE

const Code *find(CUresult code) {
  for (const Code &known : codes)
    if (known.code == code)
      return &known;
  return nullptr;
}

} // namespace

const char *codeName(CUresult code) {
  const Code *known = find(code);
  return known ? known->name : nullptr;
}

const char *codeText(CUresult code) {
  const Code *known = find(code);
  return known ? known->text : nullptr;
}

void complain(const char *pattern, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  std::fprintf(stderr, "fake GPU: %s\n", line);
}

} // namespace psrt::fake
