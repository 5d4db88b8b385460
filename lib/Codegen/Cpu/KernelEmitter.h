// Writes one kernel of a fused op for a CPU: a loop over rows, in it loops over vectors of columns.
#ifndef PARASHARD_LIB_CODEGEN_CPU_KERNELEMITTER_H
#define PARASHARD_LIB_CODEGEN_CPU_KERNELEMITTER_H

#include "../Fused.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <memory>

namespace parashard::codegen {

/// How a kernel is called: [0, grain), [grain, 2 grain) ... of `rows`.
struct KernelCall {
  enum class Argument { Input, Output, Workspace };
  struct Buffer {
    Argument kind;
    unsigned index; ///< input or result number
    int64_t offset; ///< bytes, Workspace only
  };
  std::string name; ///< empty: fills output 0 with zero bytes
  llvm::SmallVector<Buffer> buffers;
  int64_t rows = 1, grain = 1;
};

/// What the emitter is told about the place where a fused op stands.
struct FusedContext {
  llvm::SmallVector<int> scalarSlots; ///< per input: its slot in `scalars`, -1 for a buffer
  llvm::SmallVector<int>
      firstSlots;     ///< per result: the slot of its `first` flag, -1 where it is stored
  unsigned lanes = 8; ///< f32 lanes of the target's vectors
};

/// The current columns of a kernel being written.
struct Position {
  unsigned lanes = 1;  ///< 1: a scalar
  unsigned active = 1; ///< lanes that exist (the rest is masked)
  mlir::Value column;  ///< i64, the first lane's; null: no column (a value a row)
};

class KernelEmitter;

/// The element builder of Row and Elementwise ops, at the emitter's current position.
class LaneBuilder : public ps::ElementBuilder {
public:
  LaneBuilder(KernelEmitter &emitter, mlir::OpBuilder &b, mlir::Location loc)
      : ElementBuilder(b, loc), emitter(emitter) {}
  mlir::Value random(const ps::RandomPlace &place, mlir::Value like) override;

private:
  KernelEmitter &emitter;
};

/// Values that are computed in one column loop and, unless cheap, read again in later ones.
struct Kept {
  ps::RowBuilder::Column column;
  mlir::Type element;
  mlir::Value scratch;
  enum { Unknown, Cheap, Stored } state = Unknown;
};

class KernelEmitter {
public:
  using Column = ps::RowBuilder::Column;

  /// Writes `piece` of `op` into `module` as the function `name`.
  KernelEmitter(ps::FusedOp op, const Piece &piece, const IterationSpace &space,
                const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name);
  /// The calls that run it, in order (a column reduction has a second kernel). `workspace`: bytes
  /// of workspace used so far, moved on.
  mlir::FailureOr<llvm::SmallVector<KernelCall>> emit(int64_t &workspace);

  mlir::OpBuilder &builder() { return b; }
  mlir::Location getLoc() const { return loc; }
  const IterationSpace &getSpace() const { return space; }
  LaneBuilder &getLanes() { return lanes; }
  mlir::Value constant(int64_t value);
  mlir::Type laneType(mlir::Type element) const;
  mlir::Value splat(mlir::Value scalar);
  mlir::Value columnLanes();
  /// The index of the current element in the current op's result, row-major, as i64 lanes.
  mlir::Value elementIndex();
  mlir::Value loadScalarSlot(unsigned slot);

  mlir::Value evaluate(const Access &access);
  mlir::Value evaluateAt(const Access &access, mlir::Value column);
  mlir::Value evaluateRow(const Access &access);
  mlir::Value reduce(ps::ReductionKind kind, const Column &column);
  std::shared_ptr<Kept> keep(Column column, mlir::Type element);
  mlir::Value read(const std::shared_ptr<Kept> &kept);
  void define(mlir::Value result, Column column) { columns[result] = std::move(column); }
  void defineRow(mlir::Value result, mlir::Value scalar) { rowScalars[result] = scalar; }

private:
  struct Partial {
    unsigned output;
    ps::ReductionKind kind;
    mlir::Type element;  ///< of the partial row
    mlir::Value pointer; ///< this chunk's partial row
    bool direct;         ///< the partial row is the result's
  };
  using Body = llvm::function_ref<void(unsigned step)>;

  // Memory.
  mlir::Value pointerAt(mlir::Value base, mlir::Type element, mlir::Value index);
  mlir::Value loadLanes(mlir::Value base, mlir::Type element, mlir::Value row, int64_t stride);
  void storeLanes(mlir::Value value, mlir::Value base, mlir::Type element, mlir::Value row,
                  int64_t stride);
  mlir::Value mask();
  mlir::Value rowOffset(const Access &access);
  mlir::Value constantBuffer(ps::ConstantOp op);

  // Values.
  mlir::Value evaluateSource(const Access &access, mlir::Type element);
  mlir::Value evaluateComputed(mlir::Value value);
  mlir::Value evaluateElement(mlir::Value value);
  mlir::Value evaluateRowValue(mlir::Value value);
  mlir::Value bufferOf(mlir::Value source);
  mlir::Value iota(const Access &access, mlir::Type element);
  /// Runs `fn` where the row's code stands: before the column loop being written.
  mlir::Value inRowScope(llvm::function_ref<mlir::Value()> fn);

  // Loops.
  void moveTo(mlir::Value column, unsigned lanes, unsigned active);
  void forColumns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried, Body body);
  void forFlat(Body body);
  /// Visits the elements [lo, hi) x `block` of `total`, as many lanes at a time as there are; fewer
  /// at the end.
  void forBlocks(int64_t total, int64_t block, llvm::function_ref<void()> visit);
  void loop(mlir::Value from, mlir::Value to, int64_t step,
            llvm::SmallVectorImpl<mlir::Value> &carried,
            llvm::function_ref<void(mlir::Value)> body);
  void endLoop();

  mlir::Value emitFunction(llvm::StringRef name);
  void loadPointers();
  void emitRow(mlir::Value row);
  void emitRowOps();
  void storeOutputs();
  void storeOutput(unsigned i);
  void setUpPartials(int64_t &workspace);
  void clearPartials();
  void addPartial(Partial &partial);
  KernelCall emitPartialSum(const Partial &partial, int64_t workspace);
  int64_t chooseGrain() const;

  ps::FusedOp op;
  const Piece &piece;
  const IterationSpace &space;
  const FusedContext &context;
  mlir::ModuleOp module;
  std::string name;
  mlir::OpBuilder b;
  mlir::Location loc;
  LaneBuilder lanes;

  mlir::Value buffersArgument, scalarsArgument, lo, hi;
  mlir::Operation *entryMark = nullptr; ///< allocations go before it
  /// The column loop, or what stands for its last turn, being written: row code goes before it.
  mlir::Operation *loopOp = nullptr;
  KernelCall call;
  llvm::DenseMap<mlir::Value, mlir::Value> pointers; ///< of body arguments (scalars: their value)
  llvm::SmallVector<mlir::Value> outputPointers;
  llvm::SmallVector<mlir::Value> firstFlags; ///< per output: i1, null where it is stored
  std::vector<std::unique_ptr<ps::RowBuilder>> rowBuilders;
  llvm::SmallVector<mlir::Value> rowIndices;
  Position position;
  bool inColumns = false; ///< a whole pass over the row's columns is being written
  bool failed = false;
  mlir::Operation *currentOp = nullptr;
  llvm::DenseMap<mlir::Value, mlir::Value> atPosition; ///< values at the current position
  llvm::DenseMap<Kept *, mlir::Value> keptAtPosition;
  llvm::DenseMap<const Access *, mlir::Value> sourceAtPosition;
  llvm::DenseMap<const Access *, mlir::Value> sourceOfRow;
  llvm::DenseMap<mlir::Value, mlir::Value> rowScalars;
  llvm::DenseMap<mlir::Value, Column> columns;
  llvm::DenseMap<mlir::Value, std::shared_ptr<Kept>> keptValues;
  llvm::SmallVector<std::shared_ptr<Kept>> pending;
  llvm::SmallVector<Partial> partials;
  llvm::SmallVector<int64_t> partialOffsets;
};

/// How lanes are held in memory: i1 as a byte.
mlir::Type getStorageType(mlir::Type element);
/// x combined with y, on scalars or vectors.
mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind, mlir::Value x,
                    mlir::Value y);
/// The identity of a reduction as a number.
mlir::TypedAttr getIdentity(ps::ReductionKind kind, mlir::Type element);

} // namespace parashard::codegen

#endif
