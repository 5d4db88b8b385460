// Verifies `rank.run`: its operands, results, variables and keys must fit the called function.
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::rank;

SmallVector<FlatSymbolRefAttr> RunOp::getVariableSymbols() {
  SmallVector<FlatSymbolRefAttr> symbols;
  if (auto array = getVariablesAttr())
    for (Attribute symbol : array)
      symbols.push_back(cast<FlatSymbolRefAttr>(symbol));
  return symbols;
}

Value RunOp::getStaged(FlatSymbolRefAttr variable) {
  for (Value staged : getStaged())
    if (auto fetch = staged.getDefiningOp<FetchOp>();
        fetch && fetch.getVariable(cast<OpResult>(staged)) == variable)
      return staged;
  return {};
}

/// Splits the argument types of a class function into tensor types and ref types, and counts the
/// scalars.
static void splitTypes(FunctionType type, SmallVectorImpl<Type> &tensors,
                       SmallVectorImpl<ps::RefType> &refs, unsigned &scalars) {
  scalars = 0;
  for (Type input : type.getInputs()) {
    if (auto ref = dyn_cast<ps::RefType>(input))
      refs.push_back(ref);
    else if (isa<TensorType>(input))
      tensors.push_back(input);
    else
      ++scalars;
  }
}

static LogicalResult verifyVariables(RunOp run, ArrayRef<ps::RefType> refs,
                                     SymbolTableCollection &tables) {
  SmallVector<FlatSymbolRefAttr> symbols = run.getVariableSymbols();
  if (symbols.size() != refs.size())
    return run.emitOpError("(run_c3) binds ")
           << symbols.size() << " variables, the function takes " << refs.size();
  ps::MeshOp mesh = ps::getMesh(run);
  for (auto [symbol, ref] : llvm::zip(symbols, refs)) {
    auto variable = tables.lookupNearestSymbolFrom<ps::VariableOp>(run, symbol);
    if (!variable)
      return run.emitOpError("(run_c3) ") << symbol << " is not a variable";
    RankedTensorType local = variable.getTensorType();
    if (mesh && variable.getSharding())
      local = ps::getLocalType(local, variable.getSharding(), mesh);
    if (local != ref.getTensorType()) {
      InFlightDiagnostic error = run.emitOpError("(run_c3) variable ")
                                 << symbol << " has local type " << local << ", the function takes "
                                 << ref.getTensorType();
      error.attachNote(variable.getLoc()) << "variable declared here";
      return error;
    }
  }
  return success();
}

/// Verifies that staged operands belong to variables of the run.
static LogicalResult verifyStaged(RunOp run) {
  SmallVector<FlatSymbolRefAttr> symbols = run.getVariableSymbols();
  for (Value staged : run.getStaged()) {
    auto fetch = staged.getDefiningOp<FetchOp>();
    FlatSymbolRefAttr variable =
        fetch ? fetch.getVariable(cast<OpResult>(staged)) : FlatSymbolRefAttr();
    if (!variable)
      return run.emitOpError("(run_c5) has a staged operand that is not a result of rank.fetch for "
                             "a variable");
    if (!llvm::is_contained(symbols, variable))
      return run.emitOpError("(run_c5) has ")
             << variable << " staged, which is not one of its variables";
  }
  return success();
}

LogicalResult RunOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto function = tables.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!function)
    return emitOpError("(run_c1) ") << getCalleeAttr() << " is not a function";
  SmallVector<Type> tensors;
  SmallVector<ps::RefType> refs;
  unsigned scalars = 0;
  splitTypes(function.getFunctionType(), tensors, refs, scalars);
  if (TypeRange(tensors) != TypeRange(getInputs().getTypes()))
    return emitOpError("(run_c2) operands have types ")
           << getInputs().getTypes() << ", the function takes " << TypeRange(tensors);
  if (TypeRange(function.getResultTypes()) != TypeRange(getResultTypes()))
    return emitOpError("(run_c2) results have types ")
           << getResultTypes() << ", the function returns " << function.getResultTypes();
  if (failed(verifyVariables(*this, refs, tables)) || failed(verifyStaged(*this)))
    return failure();
  unsigned given = (getKeys() ? getKeys()->size() : 0) + (getMicroBatch() ? 1 : 0);
  if (given != scalars)
    return emitOpError("(run_c4) passes ")
           << given << " i64 arguments (keys and the micro-batch), but the function takes "
           << scalars;
  return success();
}
