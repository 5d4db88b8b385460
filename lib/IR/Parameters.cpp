// Finds the parameters of a module by name.
#include "lib/IR/Parameters.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"

using namespace mlir;

namespace parashard::ir {

llvm::SmallVector<ps::VariableOp> getParameters(ModuleOp module) {
  llvm::SmallVector<ps::VariableOp> parameters;
  for (auto variable : module.getOps<ps::VariableOp>())
    if (variable.getKind() == ps::VariableKind::Parameter)
      parameters.push_back(variable);
  return parameters;
}

bool matchesVariable(llvm::StringRef glob, ps::VariableOp variable) {
  if (matchesGlob(std::string_view(glob), variable.getSymName()))
    return true;
  ArrayAttr names = variable.getNamesAttr();
  return names && llvm::any_of(names.getAsRange<StringAttr>(), [&](StringAttr name) {
           return matchesGlob(std::string_view(glob), name.getValue());
         });
}

bool matchesParameter(llvm::StringRef glob, ModuleOp module) {
  return llvm::any_of(getParameters(module),
                      [&](ps::VariableOp parameter) { return matchesVariable(glob, parameter); });
}

std::string describeNearestParameters(llvm::StringRef glob, ModuleOp module) {
  std::vector<std::string> names;
  for (ps::VariableOp parameter : getParameters(module))
    names.push_back(parameter.getDisplayName().str());
  return describeNearest(std::string_view(glob), names);
}

} // namespace parashard::ir
