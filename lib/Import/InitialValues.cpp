// Implements ps-set-initial-values, which sets the initial distribution of parameters that have no
// values in the model's file (exports on the `meta` device).
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Parameters.h"
#include "parashard/Import.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::import {
namespace {

/// One rule, such as "[GLOB=]normal(0.02)".
struct InitialValueRule {
  std::string text, glob;
  DistributionAttr distribution;
  bool matches = false;  ///< matches a parameter
  bool isNeeded = false; ///< matches a parameter that needs a value

  bool accepts(VariableOp parameter) const {
    return glob.empty() || matchesVariable(glob, parameter);
  }
};

/// Parses numbers that are separated by commas, such as "1, 2" from "uniform(1, 2)".
std::optional<SmallVector<double>> parseNumbers(StringRef text) {
  SmallVector<double> numbers;
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts)
    if (part.trim().getAsDouble(numbers.emplace_back()))
      return std::nullopt;
  return numbers;
}

/// Parses "normal(std)", "normal(mean,std)", "uniform(lo,hi)", "zeros", "ones" or "value(x)".
/// Returns null for other texts.
DistributionAttr parseDistribution(MLIRContext *context, StringRef text) {
  auto make = [&](StringRef kind, double first, double second) {
    Type f64 = Float64Type::get(context);
    return DistributionAttr::get(context, kind, FloatAttr::get(f64, first),
                                 FloatAttr::get(f64, second));
  };
  text = text.trim();
  if (text == "zeros" || text == "ones")
    return make("value", text == "ones", 0);
  auto [name, rest] = text.split('(');
  if (!rest.consume_back(")"))
    return {};
  std::optional<SmallVector<double>> numbers = parseNumbers(rest);
  size_t count = numbers ? numbers->size() : 0;
  if (name == "normal" && count == 1)
    return make("normal", 0, (*numbers)[0]);
  if (name == "value" && count == 1)
    return make("value", (*numbers)[0], 0);
  if ((name == "normal" || name == "uniform") && count == 2)
    return make(name, (*numbers)[0], (*numbers)[1]);
  return {};
}

/// Returns an error message for invalid numbers of a distribution, or "" for valid numbers.
StringRef findFault(DistributionAttr distribution) {
  double first = distribution.getFirst().getValueAsDouble();
  double second = distribution.getSecond().getValueAsDouble();
  if (!std::isfinite(first) || !std::isfinite(second))
    return "the numbers must be finite";
  if (distribution.getKind() == "normal" && second < 0)
    return "the standard deviation must be at least 0";
  if (distribution.getKind() == "uniform" && second <= first)
    return "the upper bound must be above the lower one";
  return "";
}

FailureOr<SmallVector<InitialValueRule>> parseRules(ModuleOp module, ArrayRef<std::string> texts) {
  SmallVector<InitialValueRule> rules;
  for (StringRef text : texts) {
    auto [glob, distribution] = text.contains('=') ? text.split('=') : std::pair(StringRef(), text);
    InitialValueRule rule;
    rule.text = text.str(), rule.glob = glob.str();
    rule.distribution = parseDistribution(module.getContext(), distribution);
    if (!rule.distribution)
      return refuseFlag(module, "init \"" + text + "\"")
             << ": expected [GLOB=]normal(std), "
             << "normal(mean,std), uniform(lo,hi), zeros, ones or value(x)";
    if (StringRef fault = findFault(rule.distribution); !fault.empty())
      return refuseFlag(module, "init \"" + text + "\"") << ": " << fault;
    rules.push_back(std::move(rule));
  }
  return rules;
}

/// Reports a rule without effect: an error if its glob matches no parameter, else a warning.
LogicalResult reportUnused(ModuleOp module, const InitialValueRule &rule) {
  if (rule.isNeeded)
    return success();
  if (rule.matches || rule.glob.empty()) {
    warnFlag(module, "init \"" + rule.text + "\"")
        << " has no effect: all parameters that it matches have values in the "
           "model's file; add --weights none to ignore these values";
    return success();
  }
  return refuseFlag(module, "init \"" + rule.text + "\"")
         << ": matches no parameter" << describeNearestParameters(rule.glob, module);
}

} // namespace

LogicalResult setInitialValues(ModuleOp module, ArrayRef<std::string> texts, bool given) {
  FailureOr<SmallVector<InitialValueRule>> rules = parseRules(module, texts);
  if (failed(rules))
    return failure();
  // Lists the parameters that need a value, each with the first rule that matches it (null: no
  // rule).
  SmallVector<std::pair<VariableOp, const InitialValueRule *>> needy;
  for (VariableOp parameter : getParameters(module)) {
    bool needs = given || !parameter.getInit();
    const InitialValueRule *first = nullptr;
    for (InitialValueRule &rule : *rules) {
      if (!rule.accepts(parameter))
        continue;
      rule.matches = true;
      rule.isNeeded |= needs;
      first = first ? first : &rule;
    }
    if (needs)
      needy.push_back({parameter, first});
  }
  for (const InitialValueRule &rule : *rules)
    if (failed(reportUnused(module, rule)))
      return failure();
  for (auto [parameter, rule] : needy) {
    if (rule)
      parameter.setInitAttr(rule->distribution);
    else if (!given)
      return ps::refuse(parameter)
             << "parameter '" << parameter.getDisplayName()
             << "' has no values in the model's file; give it some with --init \""
             << parameter.getDisplayName()
             << "=normal(0.02)\" or --init \"normal(0.02)\" for all such parameters, or provide "
                "all "
                "values at run time with --weights none";
  }
  return success();
}

} // namespace parashard::import
