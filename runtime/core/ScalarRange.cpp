// Describes the valid values of hyperparameters such as learning rates, and their forms.
#include "runtime/core/ScalarRange.h"
#include "runtime/core/Status.h"
#include <cfloat>
#include <cmath>
#include <limits>
#include <string_view>

namespace psrt {

namespace {
struct ScalarRange {
  std::string_view name;
  double lowest, highest;
  bool hasLowest = true, hasHighest = true; ///< whether the bounds belong to the range
};
/// The ranges of torch.optim, except for a momentum of 0: SGD without momentum has no state.
constexpr ScalarRange kRanges[] = {
    {"lr", 0, FLT_MAX},
    {"weight_decay", 0, FLT_MAX},
    {"momentum", 0, FLT_MAX, false},
    {"beta1", 0, 1, true, false},
    {"beta2", 0, 1, true, false},
    {"clip_grad_norm", 0, std::numeric_limits<double>::infinity(), false}};
constexpr ScalarRange kAny = {"", -FLT_MAX, FLT_MAX};

const ScalarRange &findRange(std::string_view name) {
  for (const ScalarRange &range : kRanges)
    if (name.substr(0, name.find('.')) == range.name)
      return range;
  return kAny;
}
} // namespace

std::string describeScalarRange(const std::string &name, double value) {
  const ScalarRange &range = findRange(name);
  if ((range.hasLowest ? value >= range.lowest : value > range.lowest) &&
      (range.hasHighest ? value <= range.highest : value < range.highest))
    return "";
  if (range.hasLowest && range.hasHighest)
    return format("a number from %g to %g", range.lowest, range.highest);
  return format("a number %s %g and %s %g", range.hasLowest ? "of at least" : "above", range.lowest,
                range.hasHighest ? "at most" : "below", range.highest);
}

double computeForm(ScalarForm form, double x) {
  switch (form) {
  case ScalarForm::Value:
    return x;
  case ScalarForm::OneMinus:
    return 1 - x;
  case ScalarForm::Log:
    return std::log(x);
  }
  return x;
}

} // namespace psrt
