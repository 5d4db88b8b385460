// Reads switches from the environment.
#include "runtime/device/cuda/Switches.h"
#include "runtime/core/Status.h"
#include <cstdlib>
#include <string_view>

namespace psrt::cuda {

std::optional<bool> readSwitch(const char *variable) {
  const char *text = std::getenv(variable);
  if (!text || !*text)
    return std::nullopt;
  if (std::string_view(text) != "0" && std::string_view(text) != "1")
    PSRT_FAIL(BadArgument, "%s is \"%s\"; expected 0 or 1", variable, text);
  return *text == '1';
}

bool mayRoundToTf32() { return readSwitch("PSRT_TF32").value_or(false); }
bool mayBeNondeterministic() { return readSwitch("PSRT_NONDETERMINISTIC").value_or(false); }

} // namespace psrt::cuda
