// Declares the variables of a program under evaluation.
#ifndef PARASHARD_LIB_EVALUATE_STORE_H
#define PARASHARD_LIB_EVALUATE_STORE_H

#include "lib/Evaluate/Layout.h"
#include "lib/Evaluate/Safetensors.h"

namespace parashard::evaluate {

/// Stores one shard per rank for every variable. Before level 3, there is one rank with unsharded
/// variables.
class Store {
public:
  /// Creates the store with the initial values of all variables of `module`.
  static mlir::FailureOr<Store> create(mlir::ModuleOp module, const Layout &layout, bool sharded,
                                       uint64_t seed);

  const PerRank &get(llvm::StringRef symbol) const { return values.at(symbol.str()); }
  void set(llvm::StringRef symbol, PerRank value) { values[symbol.str()] = std::move(value); }
  bool contains(llvm::StringRef symbol) const { return values.contains(symbol.str()); }

  /// Finds a variable by symbol or by one of its model names. Returns null if there is none.
  ps::VariableOp find(llvm::StringRef name) const;
  ps::Tensor getWhole(ps::VariableOp variable) const;
  void setWhole(ps::VariableOp variable, const ps::Tensor &value);
  /// Returns the unsharded value of every variable, by symbol.
  NamedTensors getAll() const;

private:
  Store(mlir::ModuleOp module, const Layout &layout, bool sharded)
      : module(module), layout(layout), sharded(sharded) {}

  mlir::ModuleOp module;
  Layout layout;
  bool sharded;
  std::map<std::string, PerRank> values;
};

} // namespace parashard::evaluate

#endif
