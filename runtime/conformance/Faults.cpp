// Makes a rank of a test program fail. Example: PSRT_TEST_FAIL="rank=2,step=3". With ",throw"
// appended, the rank throws std::runtime_error instead of the runtime's Error.
#include "runtime/session/Session.h"
#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" void psrt_test_fault(int rank, int64_t step) {
  int chosenRank = -1;
  long long chosenStep = -1;
  const char *text = std::getenv("PSRT_TEST_FAIL");
  if (!text || std::sscanf(text, "rank=%d,step=%lld", &chosenRank, &chosenStep) != 2 ||
      rank != chosenRank || step != chosenStep)
    return;
  if (std::strstr(text, ",throw"))
    throw std::runtime_error("thrown as PSRT_TEST_FAIL asked");
  PSRT_FAIL(Failed, "failed as PSRT_TEST_FAIL asked");
}
