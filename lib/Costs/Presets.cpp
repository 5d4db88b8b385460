// Contains the presets of clusters/*.json, and looks them up by name.
#include "lib/Costs/Cluster.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace parashard::costs {

static constexpr std::pair<StringLiteral, StringLiteral> kPresets[] = {
#include "Presets.inc"
};

std::optional<StringRef> findPreset(StringRef name) {
  for (auto &[preset, text] : kPresets)
    if (preset == name)
      return text;
  return std::nullopt;
}

StringRef getDefaultPreset(StringRef target) {
  constexpr unsigned kHopper = 90, kBlackwell = 100;
  if (!target.starts_with("cuda"))
    return "cpu-mpi";
  unsigned version = kHopper; // cuda:replay has no version
  if (auto [family, number] = target.split("sm_"); !number.empty())
    (void)number.take_while(isDigit).getAsInteger(10, version);
  return version < kHopper ? "a100-80g" : version < kBlackwell ? "h100-sxm" : "b200";
}

std::vector<std::string> getPresets() {
  std::vector<std::string> names;
  for (auto &[preset, text] : kPresets)
    names.push_back(preset.str());
  return names;
}

} // namespace parashard::costs
