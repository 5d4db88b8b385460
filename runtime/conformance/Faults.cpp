// Makes a rank of a test program fail. Example: PSRT_TEST_FAIL="rank=2,step=3". With ",throw"
// appended, the rank throws std::runtime_error instead of the runtime's Error.
#include "runtime/session/Session.h"
#include <cstdlib>
#include <stdexcept>
#include <string>

extern "C" void psrt_test_fault(int rank, int64_t step) {
  const char *text = std::getenv("PSRT_TEST_FAIL");
  std::string here = "rank=" + std::to_string(rank) + ",step=" + std::to_string(step);
  bool throws = text && text == here + ",throw";
  if (!text || (text != here && !throws))
    return;
  if (throws)
    throw std::runtime_error("thrown as PSRT_TEST_FAIL asked");
  PSRT_FAIL(Failed, "failed as PSRT_TEST_FAIL asked");
}
