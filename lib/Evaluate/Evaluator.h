// The reference evaluator: runs a module at levels 0 to 4 on N in-process ranks, op by op.
#ifndef PARASHARD_LIB_EVALUATE_EVALUATOR_H
#define PARASHARD_LIB_EVALUATE_EVALUATOR_H

#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Exchange.h"
#include "lib/Evaluate/Store.h"
#include "lib/IR/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace parashard {

/// Runs functions and programs in lock-step: each op on all ranks before the next. Before level 3
/// there is one rank and tensors are whole; from level 3 on every rank holds its part. The
/// coordinates of a pipeline take turns: each runs until it needs what another has not made.
class Evaluator {
public:
  static mlir::FailureOr<Evaluator> create(mlir::ModuleOp module, uint64_t seed);

  int64_t getRankCount() const { return layout.getRankCount() * coordinates.size(); }

  /// A variable by symbol or by one of its model names; null when there is none.
  ps::VariableOp find(llvm::StringRef name) const { return coordinates.front().store.find(name); }
  /// A whole variable: of those that pipeline coordinates hold, what they add up to if stages add
  /// to it. Fails where copies of one differ in a bit.
  mlir::FailureOr<ps::Tensor> getWhole(ps::VariableOp variable);
  void setWhole(ps::VariableOp variable, const ps::Tensor &value);
  /// Every variable, whole, by symbol; accumulators of single stages are in what they add to.
  mlir::FailureOr<NamedTensors> getAll();

  /// Runs a function (levels 0 to 3; the stage function from level 3 on) on whole inputs by name.
  /// Returns whole results by name.
  mlir::FailureOr<NamedTensors> call(llvm::StringRef entry, const NamedTensors &inputs,
                                     int64_t microBatch);
  /// One training step: M micro-batches, then the update. `inputs` hold the rows of all of them
  /// along dim 0. Returns what the step's program outputs.
  mlir::FailureOr<NamedTensors> step(const NamedTensors &inputs, int64_t microBatches);
  /// The step number that random ops see.
  void setStep(int64_t step) { context.step = step; }

private:
  struct Effect {
    std::string symbol;
    PerRank value;
    std::optional<ps::ReductionKind> combines; ///< with what is there; else it is set
  };
  /// One function's values and what it does to variables at its exit.
  struct Frame {
    llvm::DenseMap<mlir::Value, PerRank> values;
    llvm::DenseMap<mlir::Value, std::string>
        refs; ///< `!ps.ref` arguments, and what is staged: their symbols
    std::vector<Effect> effects;
    bool immediate = false; ///< programs and stage functions: effects hold at once
    NamedTensors outputs;
    /// Meetings of coordinates, by token or by the op's result.
    llvm::DenseMap<mlir::Value, Exchange::Number> started;
    llvm::DenseSet<mlir::Value> pending; ///< tokens that are not waited for yet
  };

  /// One pipeline coordinate's variables.
  struct Coordinate {
    Store store;
    std::set<std::string> accumulated; ///< variables that this step has accumulated into
  };
  /// A coordinate on its way through a block; functions and programs end where their block does.
  struct Cursor {
    int64_t coordinate;
    mlir::Block *block;
    mlir::Block::iterator next;
    Frame frame;
    mlir::func::FuncOp function; ///< null: a program
  };

  Evaluator(mlir::ModuleOp module, Layout layout, std::vector<Coordinate> coordinates, bool sharded,
            uint64_t seed);

  Store &store() { return coordinates[here].store; }
  /// Runs all to their ends, in turns; fails where each waits for another.
  mlir::LogicalResult runTogether(llvm::MutableArrayRef<Cursor> cursors);
  /// Runs a cursor until it has to wait; whether it got anywhere.
  mlir::FailureOr<bool> advance(Cursor &cursor);
  mlir::FailureOr<bool> isReady(mlir::Operation &op, Cursor &cursor);
  mlir::LogicalResult startMeeting(mlir::Operation *op, mlir::Value token, llvm::StringRef queue,
                                   llvm::ArrayRef<int64_t> members, Frame &frame);
  mlir::FailureOr<bool> finishWait(rank::WaitOp op, Frame &frame);
  void finishStart(rank::StartOp op, Exchange::Number meeting, Frame &frame);
  mlir::FailureOr<bool> reduceOverPipeline(ps::AllReduceOp op, Cursor &cursor);
  /// All members of a collective take part: those of one coordinate alone do, as they run alike.
  mlir::LogicalResult checkMembers(mlir::Operation *op);
  mlir::LogicalResult reportWaiting(Cursor &cursor);
  mlir::LogicalResult checkEnd(Cursor &cursor);
  void publish(mlir::Operation &op, Cursor &cursor);
  mlir::FailureOr<Cursor> makeCursor(mlir::func::FuncOp function, const NamedTensors &inputs,
                                     int64_t microBatch);
  llvm::SmallVector<mlir::func::FuncOp> findStages(llvm::StringRef entry);
  int64_t getCoordinate(mlir::func::FuncOp function);
  void noteUses();

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
  /// `programs`: by coordinate, of one entry; none where the module has functions (before level
  /// `scheduled`).
  mlir::FailureOr<NamedTensors> callPrograms(llvm::ArrayRef<rank::ProgramOp> programs,
                                             const NamedTensors &inputs, int64_t count);
  void addEffect(Frame &frame, Effect effect);
  void apply(const Effect &effect);
  std::string getSymbol(std::optional<llvm::StringRef> symbol, mlir::Value ref, Frame &frame);
  mlir::FailureOr<PerRank> getArgument(mlir::func::FuncOp function, unsigned i,
                                       const NamedTensors &inputs, int64_t microBatch);
  PerRank everywhere(int64_t value) const;

  mlir::ModuleOp module;
  Layout layout; ///< of the ranks of one coordinate
  std::vector<Coordinate> coordinates;
  mlir::StringAttr pipeline; ///< the axis of the coordinates; null where there is one of them
  int64_t here = 0;          ///< the coordinate whose turn it is
  bool sharded;
  ps::EvaluateContext context;
  Exchange exchange;
  std::map<int64_t, PerRank> crossing; ///< level 3: values of stage functions, by number
  /// Which coordinates add to a variable, write it, read it.
  struct Uses {
    std::set<int64_t> adds, writes, reads;
  };
  llvm::StringMap<Uses> uses;
  const NamedTensors *programInputs = nullptr;
  int64_t microBatches = 1;
};

} // namespace parashard

#endif
