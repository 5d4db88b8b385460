// Adds an inference entry, which is imported from a graph of its own, to a module of level 0.
#include "dialects/ps/Entries.h"
#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "parashard/Import.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::import {

namespace {
class EntryAdder {
public:
  EntryAdder(ModuleOp module, StringRef name, ModuleOp source)
      : symbols(module), name(name), module(module), source(source) {
    for (auto variable : module.getOps<VariableOp>())
      for (StringRef each : getNames(variable))
        byName.try_emplace(each, variable);
  }

  LogicalResult add() {
    for (auto variable : llvm::make_early_inc_range(source.getOps<VariableOp>()))
      if (failed(addVariable(variable)))
        return failure();
    auto function = source.lookupSymbol<func::FuncOp>("forward");
    if (Operation *known = symbols.lookup(name))
      return fail(function.getLoc(), known)
             << "has the name of something else in the model; give the entry another name";
    function.walk([&](Operation *op) {
      if (auto symbol = op->getAttrOfType<FlatSymbolRefAttr>("variable"))
        if (Attribute other = renamed.lookup(symbol))
          op->setAttr("variable", other);
    });
    function.setName(name);
    function->setAttr(kEntryMark, UnitAttr::get(module.getContext()));
    function->remove();
    module.push_back(function);
    return success();
  }

private:
  static SmallVector<StringRef> getNames(VariableOp variable) {
    SmallVector<StringRef> names;
    if (ArrayAttr all = variable.getNamesAttr())
      for (StringAttr each : all.getAsRange<StringAttr>())
        names.push_back(each.getValue());
    return names;
  }

  /// Begins the error "--entry NAME: ...", with a note at the op `known` of the module.
  InFlightDiagnostic fail(Location loc, Operation *known) {
    InFlightDiagnostic error = emitError(loc);
    error.attachNote(known->getLoc()) << "the model or an earlier entry defines it here";
    error << "the entry @" << name << " ";
    return error;
  }

  LogicalResult addVariable(VariableOp variable) {
    if (variable.getKind() == VariableKind::Constant)
      return move(variable, (name + "." + variable.getSymName()).str());
    VariableOp known;
    for (StringRef each : getNames(variable)) {
      VariableOp found = byName.lookup(each);
      if (found && known && found != known)
        return fail(variable.getLoc(), known)
               << "ties '" << known.getDisplayName() << "' and '" << found.getDisplayName()
               << "', which are not tied in the model; export both from the same modules";
      known = found ? found : known;
    }
    if (!known)
      return move(variable, variable.getSymName().str());
    if (known.getTensorType() != variable.getTensorType() || known.getKind() != variable.getKind())
      return fail(variable.getLoc(), known)
             << "has the " << stringifyVariableKind(variable.getKind()) << " '"
             << variable.getDisplayName() << "' : " << variable.getTensorType() << ", which is a "
             << stringifyVariableKind(known.getKind()) << " : " << known.getTensorType()
             << " in the model; export both from the same modules, or rename one of the two";
    rename(variable, known.getSymName());
    return success();
  }

  void rename(VariableOp variable, StringRef symbol) {
    renamed[FlatSymbolRefAttr::get(variable.getSymNameAttr())] =
        FlatSymbolRefAttr::get(module.getContext(), symbol);
  }

  /// Moves a variable of the entry into the module, after the module's variables.
  LogicalResult move(VariableOp variable, const std::string &symbol) {
    if (Operation *known = symbols.lookup(symbol))
      return fail(variable.getLoc(), known)
             << "has a variable @" << symbol
             << ", which is the name of something else in the model; rename the variable";
    rename(variable, symbol);
    Operation *last = nullptr;
    for (auto each : module.getOps<VariableOp>())
      last = each;
    variable->remove();
    variable.setSymName(symbol);
    symbols.insert(variable, last ? std::next(last->getIterator()) : module.getBody()->begin());
    for (StringRef each : getNames(variable))
      byName.try_emplace(each, variable);
    return success();
  }

  SymbolTable symbols;
  StringRef name;
  ModuleOp module, source;
  llvm::StringMap<VariableOp> byName; ///< variables of the module, by each of their names
  DenseMap<Attribute, Attribute> renamed;
};
} // namespace

LogicalResult addEntry(ModuleOp module, StringRef name, OwningOpRef<ModuleOp> source) {
  return EntryAdder(module, name, *source).add();
}

} // namespace parashard::import
