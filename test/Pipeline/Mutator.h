// Declares random mutations of the communication in modules of levels 3 and 4.
#ifndef PARASHARD_TEST_PIPELINE_MUTATOR_H
#define PARASHARD_TEST_PIPELINE_MUTATOR_H

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace parashard::test {

/// Applies one random change to a module. The seed determines all choices.
class Mutator {
public:
  Mutator(mlir::ModuleOp module, uint64_t seed);

  /// A kind of change. `apply` returns false if the module has no op for the change.
  struct Kind {
    const char *name;
    bool (Mutator::*apply)();
  };
  static llvm::ArrayRef<Kind> getKinds();

  /// Applies a random kind of change. Returns its index in `getKinds()`.
  size_t mutate();
  std::string description; ///< text of the change that was applied

private:
  bool changeAxes();
  bool changeMembers();
  bool changeReductionKind();
  bool changeReducedVariable();
  bool changeQueue();
  bool changePeer();
  bool changeMessage();
  bool swapMessages();
  bool changeShape();
  bool move();
  bool swap();
  bool remove();
  bool dropWait();
  bool duplicate();
  bool removeFunction();
  bool changeCrossingValue();
  bool splitOverPipeline();

  int64_t pick(int64_t count) { return int64_t(rng() % uint64_t(count)); }
  /// Returns a random op for which `take` holds, or null if there is none.
  mlir::Operation *pickOp(llvm::function_ref<bool(mlir::Operation *)> take);
  mlir::Value makeZero(mlir::OpBuilder &builder, mlir::Type type);
  void replaceAndErase(mlir::Operation *op);
  void describe(mlir::Operation *op, const llvm::Twine &change);

  mlir::ModuleOp module;
  std::mt19937_64 rng;
  std::vector<mlir::Operation *> ops;
  std::vector<std::string> axes, queues;
  int64_t coordinates;
};

} // namespace parashard::test

#endif
