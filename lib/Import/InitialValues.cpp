// Gives parameters that the model's file holds no values of (a `meta` export) an initial
// distribution.
#include "dialects/ps/Ps.h"
#include "parashard/Import.h"
#include "parashard/NearestNames.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

namespace parashard {
namespace {

/// One "[GLOB=]normal(0.02)".
struct InitialValueRule {
  std::string text, globText;
  std::optional<llvm::GlobPattern> glob;
  DistributionAttr distribution;
  bool matches = false;  ///< some parameter
  bool isNeeded = false; ///< by one of them

  bool accepts(VariableOp variable) const {
    if (!glob || glob->match(variable.getSymName()))
      return true;
    if (std::optional<ArrayAttr> names = variable.getNames())
      for (auto name : names->getAsRange<StringAttr>())
        if (glob->match(name.getValue()))
          return true;
    return false;
  }
};

/// The numbers between the brackets of "name(1, 2)".
std::optional<SmallVector<double>> parseNumbers(StringRef text) {
  SmallVector<double> numbers;
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts)
    if (part.trim().getAsDouble(numbers.emplace_back()))
      return std::nullopt;
  return numbers;
}

/// "normal(std)", "normal(mean,std)", "uniform(lo,hi)", "zeros", "ones", "value(x)"; null when it
/// is none.
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

/// What is wrong with a distribution's numbers; empty: nothing.
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
    rule.text = text.str(), rule.globText = glob.str();
    rule.distribution = parseDistribution(module.getContext(), distribution);
    if (!rule.distribution)
      return module.emitError() << "--init \"" << text << "\": expected [GLOB=]normal(std), "
                                << "normal(mean,std), uniform(lo,hi), zeros, ones or value(x)";
    if (StringRef fault = findFault(rule.distribution); !fault.empty())
      return module.emitError() << "--init \"" << text << "\": " << fault;
    if (!glob.empty()) {
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(glob);
      if (!pattern)
        return module.emitError() << "--init \"" << text
                                  << "\": " << llvm::toString(pattern.takeError());
      rule.glob = std::move(*pattern);
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

SmallVector<VariableOp> getParameters(ModuleOp module) {
  SmallVector<VariableOp> parameters;
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getKind() == VariableKind::Parameter)
      parameters.push_back(variable);
  return parameters;
}

/// A rule that does nothing: an error where its glob is of no parameter, else a warning.
LogicalResult reportUnused(ModuleOp module, const InitialValueRule &rule) {
  if (rule.isNeeded)
    return success();
  if (rule.matches || !rule.glob) {
    module.emitWarning() << "--init \"" << rule.text
                         << "\" changes nothing: the parameters that it matches have values in the "
                            "model's file, which are kept (--weights none leaves them away)";
    return success();
  }
  std::vector<std::string> names;
  for (VariableOp parameter : getParameters(module))
    names.push_back(parameter.getDisplayName().str());
  return module.emitError() << "--init \"" << rule.text << "\": matches no parameter"
                            << describeNearest(rule.globText, names);
}

} // namespace

LogicalResult setInitialValues(ModuleOp module, ArrayRef<std::string> texts, bool given) {
  FailureOr<SmallVector<InitialValueRule>> rules = parseRules(module, texts);
  if (failed(rules))
    return failure();
  SmallVector<std::pair<VariableOp, const InitialValueRule *>> needy; // and the first that matches
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
      return parameter.emitError()
             << "parameter '" << parameter.getDisplayName()
             << "' has no values in the model's file; give it some with --init \""
             << parameter.getDisplayName()
             << "=normal(0.02)\" or --init \"normal(0.02)\" for all such parameters, or leave all "
                "values to the run with --weights none";
  }
  return success();
}

} // namespace parashard
