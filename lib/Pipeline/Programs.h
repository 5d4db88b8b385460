// Builds the program of a pipeline coordinate from the stage functions.
#ifndef PARASHARD_LIB_PIPELINE_PROGRAMS_H
#define PARASHARD_LIB_PIPELINE_PROGRAMS_H

#include "lib/Pipeline/Messages.h"
#include "mlir/IR/IRMapping.h"

namespace parashard::ps {

/// Appends copies of stage functions' ops to one `rank.program`.
class ProgramBuilder {
public:
  /// A program of pipeline coordinate `pp` with symbol `name` for the host's call `entry`, after
  /// the module's last op.
  ProgramBuilder(mlir::ModuleOp module, llvm::StringRef name, int64_t pp, llvm::StringRef entry,
                 int64_t bucketBytes);

  /// What follows is called apart as `entry`.
  void addSection(llvm::StringRef entry);
  /// All of a stage function for one micro-batch; its results become outputs.
  void addMicroBatch(mlir::func::FuncOp stage, int64_t microBatch);
  /// Only inputs and runs for which `take` holds; `values` carries over what earlier parts made.
  void addPart(mlir::func::FuncOp stage, int64_t microBatch, mlir::IRMapping &values,
               llvm::function_ref<bool(mlir::Operation *)> take);
  /// The results of a stage function as outputs.
  void addOutputs(mlir::func::FuncOp stage, int64_t microBatch, mlir::IRMapping &values);
  /// Starts to send a value; returns the token.
  mlir::Value addSend(mlir::Location loc, mlir::Value value, const Message &message);
  /// Starts to receive one; its value and token.
  std::pair<mlir::Value, mlir::Value> addReceive(mlir::Location loc, const Message &message);
  void addWait(mlir::Location loc, mlir::Value token);
  /// The update: collectives are started in buckets and waited for where they are used. Those of
  /// what the micro-batches left in variables are started among the runs of the last one, as soon
  /// as no later run adds to it, when the host calls all of it as one.
  void addUpdate(mlir::func::FuncOp stage);

private:
  /// What is started together.
  struct Bucket {
    llvm::SmallVector<mlir::Operation *> collectives;
    int64_t bytes = 0;
    mlir::Operation *after = nullptr; ///< of one that is started early: the last run that it needs
    rank::StartOp start;
    bool waited = false;
  };
  void bind(mlir::func::FuncOp stage, unsigned arg, int64_t microBatch, mlir::IRMapping &values);
  /// An input of a micro-batch; the same op for every stage function that reads it.
  rank::InputOp getInput(mlir::func::FuncOp stage, unsigned arg, int64_t microBatch);
  mlir::Value getMicroBatch(mlir::Location loc, int64_t microBatch);
  void addToBucket(mlir::Operation *collective, int64_t mostBytes);
  void startEarly(mlir::func::FuncOp stage, mlir::IRMapping &values);
  void numberBuckets();
  void startBuckets(mlir::IRMapping &values);
  bool isOverPipeline(mlir::Operation *collective) const;
  void start(Bucket &bucket, mlir::IRMapping &values);
  /// Waits for the buckets that `op` uses, and for those before them in their queues.
  void waitFor(mlir::Operation *op);
  /// The same for buckets that read variables which `op` may write.
  void waitForVariables(mlir::Operation *op);
  void wait(Bucket &bucket);

  mlir::OpBuilder builder;
  int64_t bucketBytes;
  mlir::StringAttr pipeline; ///< the mesh's axis; null where there is none
  int64_t coordinates;       ///< of that axis
  llvm::DenseMap<int64_t, mlir::Value> microBatches;
  llvm::DenseMap<std::pair<mlir::Attribute, int64_t>, rank::InputOp> inputs; ///< by name
  std::vector<Bucket> buckets;
  llvm::DenseMap<mlir::Operation *, unsigned> bucketOf;
};

} // namespace parashard::ps

#endif
