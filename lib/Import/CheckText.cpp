// Checks that the names in a model can be written as JSON. Programs, weight files and reports
// contain these names in JSON.
#include "dialects/ps/Ps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "parashard/Import.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace parashard::import {

/// A key in the header of safetensors files, which cannot be the name of a tensor.
constexpr llvm::StringLiteral kReservedName = "__metadata__";

/// Fails if a name of the variable cannot be stored in safetensors files.
static LogicalResult checkNames(ps::VariableOp variable) {
  ArrayAttr names = variable.getNamesAttr();
  if (names && llvm::is_contained(names.getAsValueRange<StringAttr>(), kReservedName))
    return variable.emitError() << "safetensors files cannot store a tensor named \""
                                << kReservedName << "\"; rename it in the model";
  return success();
}

LogicalResult checkText(ModuleOp module) {
  for (auto variable : module.getOps<ps::VariableOp>())
    if (failed(checkNames(variable)))
      return failure();

  StringAttr bad;
  AttrTypeWalker walker;
  walker.addWalk([&](StringAttr text) {
    if (llvm::json::isUTF8(text.getValue()))
      return WalkResult::advance();
    bad = text;
    return WalkResult::interrupt();
  });
  WalkResult result = module->walk([&](Operation *op) {
    bool isInterrupted = walker.walk(op->getAttrDictionary()).wasInterrupted() ||
                         walker.walk(LocationAttr(op->getLoc())).wasInterrupted();
    return isInterrupted ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!result.wasInterrupted())
    return success();
  std::string name;
  llvm::raw_string_ostream os(name);
  llvm::printEscapedString(bad.getValue(), os);
  return emitError(UnknownLoc::get(module.getContext()))
         << "the name \"" << name << "\" in the model is not UTF-8; rename it and export again";
}

} // namespace parashard::import
