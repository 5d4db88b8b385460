// Holds the presets of clusters/*.json.
#include "lib/Costs/Cluster.h"

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

std::vector<std::string> getPresets() {
  std::vector<std::string> names;
  for (auto &[preset, text] : kPresets)
    names.push_back(preset.str());
  return names;
}

} // namespace parashard::costs
