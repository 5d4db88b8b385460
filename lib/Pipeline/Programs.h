// Builds the program of a pipeline coordinate from the stage functions.
#ifndef PARASHARD_LIB_PIPELINE_PROGRAMS_H
#define PARASHARD_LIB_PIPELINE_PROGRAMS_H

#include "lib/Pipeline/Messages.h"
#include "mlir/IR/IRMapping.h"

namespace parashard::pipeline {

/// Appends copies of stage functions' ops to one `rank.program`.
class ProgramBuilder {
public:
  /// Creates a program of pipeline coordinate `pp` at the end of the module. `name` is the symbol
  /// of the program; the host calls the program as `entry`. A bucket has at most `bucketBytes`
  /// bytes, unless a single collective has more.
  ProgramBuilder(mlir::ModuleOp module, llvm::StringRef name, int64_t pp, llvm::StringRef entry,
                 int64_t bucketBytes);

  /// Marks the program as one of an inference entry (`ps.entry`).
  void markInferenceEntry();

  /// Begins a section that the host calls separately as `entry`.
  void addSection(llvm::StringRef entry);
  /// Appends a whole stage function for one micro-batch, with its outputs.
  void addMicroBatch(mlir::func::FuncOp stage, int64_t microBatch);
  /// Appends the ops for which `take` returns true, and the inputs that they use. `values` maps
  /// values of `stage` to values of the program; pass the same map for all parts of a stage.
  void addPart(mlir::func::FuncOp stage, int64_t microBatch, mlir::IRMapping &values,
               llvm::function_ref<bool(mlir::Operation *)> take);
  /// Appends an output for each result that is not sent to another stage.
  void addOutputs(mlir::func::FuncOp stage, int64_t microBatch, mlir::IRMapping &values);
  /// Starts the send of a value and returns the token.
  mlir::Value addSend(mlir::Location loc, mlir::Value value, const Message &message);
  /// Starts the receive of a value and returns the value and the token.
  std::pair<mlir::Value, mlir::Value> addReceive(mlir::Location loc, const Message &message);
  void addWait(mlir::Location loc, mlir::Value token);
  /// Appends the update. Collectives start in buckets, with waits before their uses. In a program
  /// without sections, collectives that read accumulated variables start early, except reductions
  /// over the pipeline axis. Each bucket of such collectives starts after the last run that may
  /// write one of its variables.
  void addUpdate(mlir::func::FuncOp stage);

private:
  /// Collectives that start together.
  struct Bucket {
    llvm::SmallVector<mlir::Operation *> collectives;
    int64_t bytes = 0;
    /// For a bucket that starts early: the last run that may write one of its variables.
    mlir::Operation *after = nullptr;
    rank::StartOp start;
    bool waited = false;
  };
  void bind(mlir::func::FuncOp stage, unsigned arg, int64_t microBatch, mlir::IRMapping &values);
  /// Returns the op that reads an input. All stage functions share one such op per input and
  /// micro-batch.
  rank::InputOp getInput(mlir::func::FuncOp stage, unsigned arg, int64_t microBatch);
  mlir::Value getMicroBatch(mlir::Location loc, int64_t microBatch);
  void addToBucket(mlir::Operation *collective, int64_t maxBytes);
  void startEarly(mlir::func::FuncOp stage, mlir::IRMapping &values);
  void numberBuckets();
  void startBuckets(mlir::IRMapping &values);
  bool isOverPipeline(mlir::Operation *collective) const;
  void start(Bucket &bucket, mlir::IRMapping &values);
  /// Waits for the buckets whose results `op` uses, and for the earlier buckets in the queues of
  /// these buckets.
  void waitFor(mlir::Operation *op);
  /// Waits for the buckets that read a variable that `op` may write.
  void waitForVariables(mlir::Operation *op);
  void wait(Bucket &bucket);

  mlir::OpBuilder builder;
  int64_t bucketBytes;
  mlir::StringAttr pipeline; ///< pipeline axis of the mesh; null if none
  int64_t coordinates;       ///< size of the pipeline axis
  llvm::DenseMap<int64_t, mlir::Value> microBatches;
  /// By name and micro-batch.
  llvm::DenseMap<std::pair<mlir::Attribute, int64_t>, rank::InputOp> inputs;
  std::vector<Bucket> buckets;
  llvm::DenseMap<mlir::Operation *, unsigned> bucketOf;
};

} // namespace parashard::pipeline

#endif
