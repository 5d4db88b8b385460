// Parses targets and joins the names of enums for messages.
#include "runtime/core/ProgramKinds.h"
#include <charconv>

namespace psrt {

std::string joinNames(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

/// Parses the architecture of a CUDA target: "sm_90", "sm_90a" or "replay".
static void parseArchitecture(std::string_view text, Target &target) {
  target.isReplay = text == "replay";
  if (target.isReplay)
    return;
  constexpr std::string_view kPrefix = "sm_";
  const char *end = text.data() + text.size();
  bool isKnown = text.starts_with(kPrefix);
  if (isKnown) {
    auto [stop, error] = std::from_chars(text.data() + kPrefix.size(), end, target.architecture);
    target.isExact = stop != end;
    isKnown = error == std::errc() && end - stop <= 1;
  }
  if (!isKnown)
    PSRT_FAIL(
        BadInput,
        "the program is compiled for \"%s\"; expected cuda:sm_ and a number; compile the model "
        "again, and link with the same version of Parashard",
        target.text.c_str());
}

Target parseTarget(const std::string &text) {
  Target target;
  target.text = text;
  size_t colon = text.find(':');
  std::optional<DeviceKind> device = findName<DeviceKind>(text.substr(0, colon));
  if (!device)
    PSRT_FAIL(BadInput,
              "the program is compiled for \"%s\", but this runtime supports %s; compile the model "
              "again, and link with the same version of Parashard",
              text.c_str(), joinNames(listNames<DeviceKind>()).c_str());
  target.device = *device;
  if (target.device == DeviceKind::Cuda)
    parseArchitecture(colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1),
                      target);
  return target;
}

} // namespace psrt
