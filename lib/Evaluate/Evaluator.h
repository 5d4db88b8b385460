// The reference evaluator: runs a module at levels 0 to 4 on N in-process ranks, op by op.
#ifndef PARASHARD_LIB_EVALUATE_EVALUATOR_H
#define PARASHARD_LIB_EVALUATE_EVALUATOR_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Store.h"

namespace parashard {

/// Runs functions and programs in lock-step: each op on all ranks before the next. Before level 3
/// there is one rank and tensors are whole; from level 3 on every rank holds its part.
class Evaluator {
public:
  static mlir::FailureOr<Evaluator> create(mlir::ModuleOp module, uint64_t seed);

  int64_t getRankCount() const { return layout.getRankCount(); }
  Store &getStore() { return store; }

  /// Runs a function (levels 0 to 3; the stage function from level 3 on) on whole inputs by name.
  /// Returns whole results by name.
  mlir::FailureOr<NamedTensors> call(llvm::StringRef entry, const NamedTensors &inputs,
                                     int64_t microBatch);
  /// One training step: M micro-batches, then the update. `inputs` hold the rows of all of them
  /// along dim 0. Returns what the step's program outputs.
  mlir::FailureOr<NamedTensors> step(const NamedTensors &inputs, int64_t microBatches);
  /// The step number that random ops see.
  void setStep(int64_t step) { context.step = step; }

  /// The named arguments of an entry and their whole types.
  mlir::FailureOr<llvm::SmallVector<std::pair<std::string, mlir::RankedTensorType>>>
  getInputs(llvm::StringRef entry);

private:
  struct Effect {
    std::string symbol;
    PerRank value;
    bool accumulates;
  };
  /// One function's values and what it does to variables at its exit.
  struct Frame {
    llvm::DenseMap<mlir::Value, PerRank> values;
    llvm::DenseMap<mlir::Value, std::string> refs; ///< `!ps.ref` arguments: their symbols
    std::vector<Effect> effects;
    bool immediate = false; ///< programs and stage functions: effects hold at once
    NamedTensors outputs;
  };

  Evaluator(mlir::ModuleOp module, Layout layout, Store store, bool sharded, uint64_t seed);

  mlir::func::FuncOp findEntry(llvm::StringRef entry);
  mlir::LogicalResult runBlock(mlir::Block &block, Frame &frame);
  mlir::LogicalResult runOp(mlir::Operation &op, Frame &frame);
  mlir::LogicalResult runTensorOp(ps::EvaluateOpInterface op, Frame &frame);
  void fillPadding(mlir::Operation *op, llvm::MutableArrayRef<PerRank> results) const;
  mlir::LogicalResult runRead(ps::ReadOp op, Frame &frame);
  mlir::LogicalResult runWrite(ps::WriteOp op, Frame &frame);
  mlir::LogicalResult runAccumulate(ps::AccumulateOp op, Frame &frame);
  mlir::LogicalResult runFused(ps::FusedOp op, Frame &frame);
  mlir::LogicalResult runClass(rank::RunOp op, Frame &frame);
  mlir::LogicalResult runStart(rank::StartOp op, Frame &frame);
  mlir::LogicalResult runInput(rank::InputOp op, Frame &frame);
  mlir::LogicalResult runOutput(rank::OutputOp op, Frame &frame);
  /// The program of an entry; null where the module has functions (before level `scheduled`).
  rank::ProgramOp findProgram(llvm::StringRef entry);
  mlir::FailureOr<NamedTensors> callProgram(rank::ProgramOp program, const NamedTensors &inputs,
                                            int64_t count);
  void addEffect(Frame &frame, Effect effect);
  void apply(const Effect &effect);
  std::string getSymbol(std::optional<llvm::StringRef> symbol, mlir::Value ref, Frame &frame);
  mlir::FailureOr<PerRank> getArgument(mlir::func::FuncOp function, unsigned i,
                                       const NamedTensors &inputs, int64_t microBatch);
  PerRank everywhere(int64_t value) const;

  mlir::ModuleOp module;
  Layout layout;
  Store store;
  bool sharded;
  ps::EvaluateContext context;
  std::set<std::string> accumulated; ///< variables that this step has accumulated into
  const NamedTensors *programInputs = nullptr;
  int64_t microBatches = 1;
};

} // namespace parashard

#endif
