// Declares the reference evaluator, which runs a module of level 0 to 4 on ranks within this
// process.
#ifndef PARASHARD_LIB_EVALUATE_EVALUATOR_H
#define PARASHARD_LIB_EVALUATE_EVALUATOR_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Exchange.h"
#include "lib/Evaluate/Store.h"
#include "lib/IR/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace parashard::evaluate {

/// Runs functions and programs. Before level 3, there is one rank with unsharded tensors. From
/// level 3 on, each rank has its own shards. The ranks of one pipeline coordinate run in lock-step:
/// each op runs on all of them before the next op. Coordinates take turns: each runs until it needs
/// a value that another coordinate has not produced yet.
class Evaluator {
public:
  static mlir::FailureOr<Evaluator> create(mlir::ModuleOp module, uint64_t seed);

  int64_t getRankCount() const { return layout.getRankCount() * coordinates.size(); }

  /// Finds a variable by symbol or by one of its model names. Returns null if there is none.
  ps::VariableOp find(llvm::StringRef name) const { return coordinates.front().store.find(name); }
  /// Returns the unsharded value of a variable. If stages accumulate into the variable, returns the
  /// sum over the coordinates of these stages. Otherwise, compares the values on all coordinates
  /// that write the variable, or on all coordinates that read it if none writes it. Fails if the
  /// bits of these values differ.
  mlir::FailureOr<ps::Tensor> getWhole(ps::VariableOp variable);
  void setWhole(ps::VariableOp variable, const ps::Tensor &value);
  /// Returns the unsharded value of every variable, by symbol. An accumulator with `ps.adds_to` is
  /// not listed: its value is added to the variable that `ps.adds_to` names.
  mlir::FailureOr<NamedTensors> getAll();

  /// Runs an entry. An entry is a function (levels 0 to 2), a set of stage functions (level 3) or a
  /// set of programs (level 4). Inputs and results are unsharded, by name.
  mlir::FailureOr<NamedTensors> call(llvm::StringRef entry, const NamedTensors &inputs,
                                     int64_t microBatch);
  /// Runs one training step, and increments the step number. `inputs` contain the rows of all
  /// micro-batches along dim 0. Returns the outputs with the rows of all
  /// micro-batches; an output without a batch dim is that of the last micro-batch.
  mlir::FailureOr<NamedTensors> step(const NamedTensors &inputs, int64_t microBatches);
  /// Sets the step number, which is part of the random key of dropouts and other random ops.
  void setStep(int64_t step) { context.step = step; }

private:
  struct Effect {
    std::string symbol;
    PerRank value;
    std::optional<ps::ReductionKind> combines; ///< reduces with the old value; nullopt: overwrites
  };
  /// The values of one function, and its effects on variables.
  struct Frame {
    llvm::DenseMap<mlir::Value, PerRank> values;
    llvm::DenseMap<mlir::Value, std::string>
        refs; ///< symbols of `!ps.ref` arguments and staged variables
    std::vector<Effect> effects;
    bool immediate = false; ///< effects apply at once, not when the function returns
    NamedTensors outputs;
    /// The rendezvous of each started op, by its token (level 4) or by its result (level 3).
    llvm::DenseMap<mlir::Value, Exchange::Number> started;
    llvm::DenseSet<mlir::Value> pending; ///< tokens that have no wait yet
  };

  /// The variables of one pipeline coordinate.
  struct Coordinate {
    Store store;
    std::set<std::string> accumulated; ///< variables that this step has accumulated into
  };
  /// The progress of one coordinate through the block of a function or program.
  struct Cursor {
    int64_t coordinate;
    mlir::Block *block;
    mlir::Block::iterator next;
    Frame frame;
    mlir::func::FuncOp function; ///< null for a program
  };

  Evaluator(mlir::ModuleOp module, Layout layout, std::vector<Coordinate> coordinates, bool sharded,
            uint64_t seed);

  Store &store() { return coordinates[current].store; }
  /// Runs all cursors to their ends; the cursors take turns. Fails on a deadlock.
  mlir::LogicalResult runTogether(llvm::MutableArrayRef<Cursor> cursors);
  /// Runs a cursor until it has to wait. Returns true if the cursor has advanced.
  mlir::FailureOr<bool> advance(Cursor &cursor);
  mlir::FailureOr<bool> isReady(mlir::Operation &op, Cursor &cursor);
  mlir::LogicalResult startRendezvous(mlir::Operation *op, mlir::Value token, llvm::StringRef queue,
                                      llvm::ArrayRef<int64_t> members, Frame &frame);
  mlir::FailureOr<bool> finishWait(rank::WaitOp op, Frame &frame);
  void finishStart(rank::StartOp op, Exchange::Number rendezvous, Frame &frame);
  mlir::FailureOr<bool> reduceOverPipeline(ps::AllReduceOp op, Cursor &cursor);
  /// Fails for an op whose axes include the pipeline axis. The ranks of other coordinates run other
  /// programs, and would never join the op. Not called for the ops that `reduceOverPipeline` runs.
  mlir::LogicalResult checkMembers(mlir::Operation *op);
  mlir::LogicalResult reportWaiting(Cursor &cursor);
  mlir::LogicalResult checkEnd(Cursor &cursor);
  void publish(mlir::Operation &op, Cursor &cursor);
  mlir::FailureOr<Cursor> makeCursor(mlir::func::FuncOp function, const NamedTensors &inputs,
                                     int64_t microBatch);
  llvm::SmallVector<mlir::func::FuncOp> findStages(llvm::StringRef entry);
  int64_t getCoordinate(mlir::func::FuncOp function);
  void recordUses();

  llvm::SmallVector<rank::ProgramOp> findPrograms(llvm::StringRef entry);
  mlir::LogicalResult runBlock(mlir::Block &block, Frame &frame);
  mlir::LogicalResult runOp(mlir::Operation &op, Frame &frame);
  mlir::LogicalResult checkOperands(mlir::Operation &op, Frame &frame);
  mlir::LogicalResult runTensorOp(ps::EvaluateOpInterface op, Frame &frame);
  void fillPadding(mlir::Operation *op, llvm::MutableArrayRef<PerRank> results) const;
  mlir::LogicalResult runRead(ps::ReadOp op, Frame &frame);
  mlir::LogicalResult runWrite(ps::WriteOp op, Frame &frame);
  mlir::LogicalResult runAccumulate(ps::AccumulateOp op, Frame &frame);
  mlir::LogicalResult runFused(ps::FusedOp op, Frame &frame);
  mlir::LogicalResult runClass(rank::RunOp op, Frame &frame);
  mlir::LogicalResult runStart(rank::StartOp op, Frame &frame);
  mlir::LogicalResult runFetch(rank::FetchOp op, Frame &frame);
  mlir::LogicalResult runOffload(rank::OffloadOp op, Frame &frame);
  mlir::LogicalResult runSend(rank::SendOp op, Frame &frame);
  mlir::LogicalResult runRecv(rank::RecvOp op, Frame &frame);
  mlir::LogicalResult runInput(rank::InputOp op, Frame &frame);
  mlir::LogicalResult runOutput(rank::OutputOp op, Frame &frame);
  /// Runs an entry, and adds its results to `outputs`.
  mlir::LogicalResult call(llvm::StringRef entry, const NamedTensors &inputs, int64_t microBatch,
                           NamedTensors &outputs);
  /// Runs the programs of one entry, one per coordinate, and adds their results to `outputs`.
  mlir::LogicalResult callPrograms(llvm::ArrayRef<rank::ProgramOp> programs,
                                   const NamedTensors &inputs, int64_t count,
                                   NamedTensors &outputs);
  void addEffect(Frame &frame, Effect effect);
  void apply(const Effect &effect);
  std::string getSymbol(std::optional<llvm::StringRef> symbol, mlir::Value ref, Frame &frame);
  mlir::FailureOr<PerRank> getArgument(mlir::func::FuncOp function, unsigned i,
                                       const NamedTensors &inputs, int64_t microBatch);
  PerRank replicate(int64_t value) const;

  mlir::ModuleOp module;
  Layout layout; ///< layout of the ranks of one pipeline coordinate
  std::vector<Coordinate> coordinates;
  mlir::StringAttr pipeline; ///< the pipeline axis; null with only one coordinate
  int64_t current = 0;       ///< the coordinate that runs now
  bool sharded;
  ps::EvaluateContext context;
  Exchange exchange;
  std::map<int64_t, PerRank>
      crossing; ///< level 3: values passed between stage functions, by number
  /// The coordinates that accumulate into a variable, write the variable, or read it.
  struct Uses {
    std::set<int64_t> adds, writes, reads;
  };
  llvm::StringMap<Uses> uses;
  const NamedTensors *programInputs = nullptr;
  int64_t microBatches = 1;
};

} // namespace parashard::evaluate

#endif
