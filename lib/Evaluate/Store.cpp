// Stores variables as shards: scatters initial values, and gathers values for the user.
#include "lib/Evaluate/Store.h"

#include "lib/Evaluate/InitialValues.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::evaluate {

FailureOr<Store> Store::create(ModuleOp module, const Layout &layout, bool sharded, uint64_t seed) {
  Store store(module, layout, sharded);
  for (auto variable : module.getOps<VariableOp>()) {
    if (variable.getKind() == VariableKind::Copy)
      continue; // set together with its parameter, by setWhole
    FailureOr<Tensor> value = getInitialValue(variable, seed);
    if (failed(value))
      return failure();
    store.setWhole(variable, *value);
  }
  return store;
}

VariableOp Store::find(StringRef name) const {
  for (auto variable : const_cast<ModuleOp &>(module).getOps<VariableOp>()) {
    if (variable.getSymName() == name)
      return variable;
    if (auto names = variable.getNames())
      if (llvm::any_of(*names, [&](Attribute a) { return cast<StringAttr>(a) == name; }))
        return variable;
  }
  return {};
}

Tensor Store::getWhole(VariableOp variable) const {
  ShardingAttr sharding = sharded ? variable.getSharding() : ShardingAttr();
  return layout.gather(get(variable.getSymName()), variable.getTensorType(), sharding);
}

void Store::setWhole(VariableOp variable, const Tensor &value) {
  ShardingAttr sharding = sharded ? variable.getSharding() : ShardingAttr();
  set(variable.getSymName(), layout.scatter(value, sharding));
  if (variable.getKind() != VariableKind::Parameter)
    return;
  for (auto copy : const_cast<ModuleOp &>(module).getOps<VariableOp>())
    if (copy.getKind() == VariableKind::Copy && *copy.getOf() == variable.getSymName())
      setWhole(copy, value.convertTo(copy.getTensorType().getElementType()));
}

NamedTensors Store::getAll() const {
  NamedTensors all;
  for (auto variable : const_cast<ModuleOp &>(module).getOps<VariableOp>())
    all[variable.getSymName().str()] = getWhole(variable);
  return all;
}

} // namespace parashard::evaluate
