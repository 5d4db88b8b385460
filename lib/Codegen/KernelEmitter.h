// Emits one kernel of a fused op. This class computes values; a target decides how to visit rows
// and columns, how to reduce a row, and which values of a row to keep.
#ifndef PARASHARD_LIB_CODEGEN_KERNELEMITTER_H
#define PARASHARD_LIB_CODEGEN_KERNELEMITTER_H

#include "lib/Fusion/Fused.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <memory>

namespace parashard::codegen {

/// Long sums are split into runs of this many terms, so that small terms are not lost in a large
/// partial sum. A sum is long if an accumulator adds more than twice this many terms.
inline constexpr int64_t kSumRunLength = 1024;

/// The call of a kernel. A CPU calls the kernel once per range of rows: [0, grain), [grain, 2
/// grain), ... up to `rows`. A GPU launches `grid` blocks of `block` threads.
struct KernelCall {
  enum class Argument { Input, Output, Workspace };
  struct Buffer {
    Argument kind;
    unsigned index; ///< input or result number
    int64_t offset; ///< byte offset in the workspace, for Workspace
    bool writes;    ///< false: only read
  };
  std::string name; ///< empty: the call only sets output 0 to zero
  llvm::SmallVector<Buffer> buffers;
  int64_t rows = 1, grain = 1;
  int64_t grid = 0, block = 0; ///< 0: a kernel of a CPU
  int64_t bytes = 0;           ///< bytes read and written, each buffer once; without workspace
};

/// The properties of the enclosing class function that the emitter of a fused op needs.
struct FusedContext {
  llvm::SmallVector<int> scalarSlots; ///< per input: slot in `scalars`; -1 for a buffer
  llvm::SmallVector<int> firstSlots;  ///< per result: slot of the `first` flag; -1: not accumulated
  bool aligned = true;                ///< every buffer is aligned to 64 bytes
};

/// The current columns of a kernel.
struct Position {
  unsigned lanes = 1;  ///< columns per vector; 1: scalar code
  unsigned active = 1; ///< valid lanes; the other lanes are masked
  mlir::Value column;  ///< i64 column of the first lane; null: one value per row
};

class KernelEmitter;

/// Builds elements of Row and Elementwise ops at the emitter's current position.
class LaneBuilder : public ps::ElementBuilder {
public:
  LaneBuilder(KernelEmitter &emitter, mlir::OpBuilder &b, mlir::Location loc)
      : ElementBuilder(b, loc), emitter(emitter) {}
  mlir::Value random(const ps::RandomPosition &position, mlir::Value like) override;

private:
  KernelEmitter &emitter;
};

/// A value that one column loop computes and later loops read again. Later loops recompute the
/// value if that is cheap.
struct Kept {
  ps::RowBuilder::Column column;
  mlir::Type element;
  mlir::Value scratch;
  enum { Unknown, Cheap, Stored } state = Unknown;
  llvm::SmallVector<mlir::Value> registers; ///< one per column step, if rows stay in registers
};

class KernelEmitter {
public:
  using Column = ps::RowBuilder::Column;

  /// Creates an emitter for `piece` of `op`. The kernel becomes the function `name` of `module`.
  KernelEmitter(ps::FusedOp op, const fusion::Piece &piece, const fusion::IterationSpace &space,
                const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name);
  virtual ~KernelEmitter() = default;
  /// Emits the kernel, and a second one if a column reduction needs it. Returns their calls in
  /// order. Advances `workspace`, the bytes of workspace used so far.
  mlir::FailureOr<llvm::SmallVector<KernelCall>> emit(int64_t &workspace);

  mlir::OpBuilder &builder() { return b; }
  mlir::Location getLoc() const { return loc; }
  const fusion::IterationSpace &getSpace() const { return space; }
  LaneBuilder &getLanes() { return lanes; }
  mlir::Value constant(int64_t value);
  mlir::Type laneType(mlir::Type element) const;
  mlir::Value splat(mlir::Value scalar);
  mlir::Value columnLanes();
  /// Returns the row-major index of the current element in the current op's result, as i64 lanes.
  mlir::Value elementIndex();
  mlir::Value loadScalarSlot(unsigned slot);

  mlir::Value evaluate(const fusion::Access &access);
  mlir::Value evaluateAt(const fusion::Access &access, mlir::Value column);
  mlir::Value evaluateRow(const fusion::Access &access);
  /// Reduces all columns of the row.
  virtual mlir::Value reduce(ps::ReductionKind kind, const Column &column) = 0;
  std::shared_ptr<Kept> keep(Column column, mlir::Type element);
  virtual mlir::Value read(const std::shared_ptr<Kept> &kept) = 0;
  void define(mlir::Value result, Column column) { columns[result] = std::move(column); }
  void defineRow(mlir::Value result, mlir::Value scalar) { rowScalars[result] = scalar; }

protected:
  struct Partial {
    unsigned output;
    ps::ReductionKind kind;
    mlir::Type element;  ///< element type of the partial row
    mlir::Value pointer; ///< this chunk's partial row
    bool direct;         ///< the partial row is the result's row
  };
  using Body = llvm::function_ref<void(unsigned step)>;

  // Hooks that a target implements.
  /// Begins a function. Sets `scalarsArgument`, and sets `entryMark` to an op before the body.
  virtual void beginFunction(llvm::StringRef name) = 0;
  virtual void endFunction() {}
  /// Returns the pointer to buffer `number` of the call.
  virtual mlir::Value takeBuffer(unsigned number) = 0;
  /// Visits the rows of the call. Sets the call's `rows`, and `grain` (CPU) or `grid` (GPU).
  virtual void emitRows() = 0;
  /// Returns the number of the current chunk of rows.
  virtual mlir::Value chunkNumber() = 0;
  /// Visits all columns of the row: calls `body(step)` for every vector. On a CPU, step is the
  /// vector's number mod `unroll`.
  virtual void forColumns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried,
                          Body body) = 0;
  /// Visits `total` consecutive elements, in blocks of `block` on a CPU. Sets `rows`, and `grain`
  /// or `grid`, of `call`.
  virtual void forElements(int64_t total, int64_t block, KernelCall &call,
                           llvm::function_ref<void()> visit) = 0;
  /// Visits `total` sums of `chunks` numbers each. Sets `rows`, and `grain` or `grid`, of `call`.
  virtual void forSums(int64_t total, int64_t chunks, KernelCall &call,
                       llvm::function_ref<void()> visit);
  /// Returns the sum of all chunks for the current columns. Only `visit` of forSums may call this
  /// function. Consecutive chunks are `total` elements apart.
  virtual mlir::Value addUpChunks(const Partial &partial, mlir::Value from, int64_t chunks,
                                  int64_t total);
  /// Adds the current columns to a column reduction.
  virtual void addPartial(Partial &partial, unsigned step);
  /// Returns the condition under which the current columns are stored; null: always.
  virtual mlir::Value getStoreCondition() { return {}; }
  /// Runs before values with one element per row are stored. Waits for threads that may still read
  /// the old values.
  virtual void beginRowOutputs() {}
  /// Returns the alignment in bytes of the address of the current columns, if they are contiguous.
  virtual unsigned getAlignment(mlir::Type element) const;

  // Memory.
  mlir::Value pointerAt(mlir::Value base, mlir::Type element, mlir::Value index);
  mlir::Value loadLanes(mlir::Value base, mlir::Type element, mlir::Value row, int64_t stride);
  void storeLanes(mlir::Value value, mlir::Value base, mlir::Type element, mlir::Value row,
                  int64_t stride);
  mlir::Value mask();
  mlir::Value rowOffset(const fusion::Access &access);
  mlir::Value constantBuffer(ps::ConstantOp op);

  // Values.
  mlir::Value evaluateSource(const fusion::Access &access, mlir::Type element);
  mlir::Value evaluateComputed(mlir::Value value);
  mlir::Value evaluateElement(mlir::Value value);
  mlir::Value evaluateRowValue(mlir::Value value);
  mlir::Value bufferOf(mlir::Value source);
  mlir::Value iota(const fusion::Access &access, mlir::Type element);
  /// Runs `fn` with the insertion point before the current column loop, for code that a row needs
  /// once.
  mlir::Value inRowScope(llvm::function_ref<mlir::Value()> fn);
  mlir::Type probeElement(const Column &column);
  /// Returns the value to add at the current columns.
  mlir::Value evaluatePartial(Partial &partial);

  // Loops.
  void moveTo(mlir::Value column, unsigned lanes, unsigned active);
  /// Emits a loop. Code that a row needs once goes before the loop or, with `isInner`, before the
  /// enclosing loop.
  void loop(mlir::Value from, mlir::Value to, int64_t step,
            llvm::SmallVectorImpl<mlir::Value> &carried, llvm::function_ref<void(mlir::Value)> body,
            bool isInner = false);
  void endLoop();

  void loadPointers();
  void emitRow(mlir::Value row);
  void emitRowOps();
  void storeOutputs();
  void storeOutput(unsigned i);
  void setUpPartials(int64_t &workspace);
  void clearPartials();
  virtual KernelCall emitPartialSum(const Partial &partial, int64_t workspace);

  ps::FusedOp op;
  const fusion::Piece &piece;
  const fusion::IterationSpace &space;
  const FusedContext &context;
  mlir::ModuleOp module;
  std::string name;
  mlir::OpBuilder b;
  mlir::Location loc;
  LaneBuilder lanes;

  mlir::Value scalarsArgument;
  mlir::Operation *entryMark = nullptr; ///< allocations go before this op
  /// The current column loop, or the op around its last, partial iteration. Code that a row needs
  /// once goes before this op.
  mlir::Operation *loopOp = nullptr;
  KernelCall call;
  /// By body argument: the pointer of a tensor, or the value of a scalar.
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;
  llvm::SmallVector<mlir::Value> outputPointers;
  llvm::SmallVector<mlir::Value> firstFlags; ///< i1 per output; null: not accumulated
  std::vector<std::unique_ptr<ps::RowBuilder>> rowBuilders;
  llvm::SmallVector<mlir::Value> rowIndices;
  Position position;
  bool inColumns = false; ///< a full pass over the row's columns is being emitted
  bool failed = false;
  mlir::Operation *currentOp = nullptr;
  llvm::DenseMap<mlir::Value, mlir::Value> atPosition; ///< values at the current position
  llvm::DenseMap<Kept *, mlir::Value> keptAtPosition;
  llvm::DenseMap<const fusion::Access *, mlir::Value> sourceAtPosition;
  llvm::DenseMap<const fusion::Access *, mlir::Value> sourceOfRow;
  llvm::DenseMap<mlir::Value, mlir::Value> rowScalars;
  llvm::DenseMap<mlir::Value, Column> columns;
  llvm::DenseMap<mlir::Value, std::shared_ptr<Kept>> keptValues;
  llvm::SmallVector<std::shared_ptr<Kept>> pending;
  llvm::SmallVector<Partial> partials;
  llvm::SmallVector<int64_t> partialOffsets;
};

/// Returns the type of an element in memory. Bools and 8-bit floats are bytes; integers are
/// signless.
mlir::Type getStorageType(mlir::Type element);
/// Combines x with y, on scalars or vectors.
mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind, mlir::Value x,
                    mlir::Value y);
/// Returns the identity of a reduction (`ps::getIdentity`) as a value of `type`, a scalar or a
/// vector.
mlir::Value identityOf(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind,
                       mlir::Type type);
/// Reduces the lanes of `value` to a scalar by halving: combines lane i with lane i + n / 2, then
/// repeats this with n / 2 lanes.
mlir::Value foldLanes(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind,
                      mlir::Value value);

} // namespace parashard::codegen

#endif
