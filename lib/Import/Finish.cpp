// Finishes an imported module: removes unused ops and variables, and numbers random ops.
#include "lib/Import/Finish.h"
#include "dialects/ps/Ps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace parashard::import {

void returnResults(OpBuilder &builder, func::FuncOp function, ValueRange results,
                   ArrayRef<std::string> names) {
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), results.getTypes()));
  for (auto [i, name] : llvm::enumerate(names))
    function.setResultAttr(i, kNameMark, builder.getStringAttr(name));
}

void removeDead(ModuleOp module) {
  llvm::StringSet<> used;
  module.walk([&](func::FuncOp function) {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(function.front().getOperations())))
      if (isOpTriviallyDead(&op))
        op.erase();
    function.walk([&](Operation *op) {
      if (auto symbol = op->getAttrOfType<FlatSymbolRefAttr>("variable"))
        used.insert(symbol.getValue());
    });
  });
  for (auto variable : llvm::make_early_inc_range(module.getOps<ps::VariableOp>()))
    if (variable.getTransient() && !used.contains(variable.getSymName()))
      variable.erase();
}

void numberRandomOps(ModuleOp module) {
  Builder b(module.getContext());
  int64_t next = 0;
  module.walk([&](Operation *op) {
    auto attention = dyn_cast<ps::AttentionOp>(op);
    if (isa<ps::DropoutOp>(op) || (attention && attention.getDropout().convertToDouble() > 0))
      op->setAttr(kKeyMark, b.getI64IntegerAttr(next++));
  });
}

} // namespace parashard::import
