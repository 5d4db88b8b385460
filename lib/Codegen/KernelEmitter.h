// Writes one kernel of a fused op. What each value is stands here; a target says how rows and
// columns are visited, how a row is reduced, and what is kept of it.
#ifndef PARASHARD_LIB_CODEGEN_KERNELEMITTER_H
#define PARASHARD_LIB_CODEGEN_KERNELEMITTER_H

#include "lib/Fusion/Fused.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <memory>

namespace parashard::codegen {

/// A sum of over twice as many terms in one accumulator is added up in runs of this length, so that
/// small terms are not lost in a large sum.
inline constexpr int64_t kSumRunLength = 1024;

/// How a kernel is called: on a CPU on [0, grain), [grain, 2 grain) ... of `rows`; on a GPU by
/// `grid` blocks of `block` threads.
struct KernelCall {
  enum class Argument { Input, Output, Workspace };
  struct Buffer {
    Argument kind;
    unsigned index; ///< input or result number
    int64_t offset; ///< bytes, Workspace only
    bool writes;    ///< whether it is written, or else only read
  };
  std::string name; ///< empty: fills output 0 with zero bytes
  llvm::SmallVector<Buffer> buffers;
  int64_t rows = 1, grain = 1;
  int64_t grid = 0, block = 0; ///< 0: a kernel of a CPU
  int64_t bytes = 0; ///< that it must move: of what it reads and writes, each once; no workspace
};

/// What the emitter is told about the place where a fused op stands.
struct FusedContext {
  llvm::SmallVector<int> scalarSlots; ///< per input: its slot in `scalars`, -1 for a buffer
  llvm::SmallVector<int>
      firstSlots;      ///< per result: the slot of its `first` flag, -1 where it is stored
  bool aligned = true; ///< every buffer begins at a multiple of 64 bytes
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
  mlir::Value random(const ps::RandomPosition &place, mlir::Value like) override;

private:
  KernelEmitter &emitter;
};

/// Values that are computed in one column loop and, unless cheap, read again in later ones.
struct Kept {
  ps::RowBuilder::Column column;
  mlir::Type element;
  mlir::Value scratch;
  enum { Unknown, Cheap, Stored } state = Unknown;
  llvm::SmallVector<mlir::Value> registers; ///< by column step, where a target holds rows in them
};

class KernelEmitter {
public:
  using Column = ps::RowBuilder::Column;

  /// Writes `piece` of `op` into `module` as the function `name`.
  KernelEmitter(ps::FusedOp op, const fusion::Piece &piece, const fusion::IterationSpace &space,
                const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name);
  virtual ~KernelEmitter() = default;
  /// The calls that run it, in order (a column reduction has a second kernel). `workspace`: bytes
  /// of workspace used so far, moved on.
  mlir::FailureOr<llvm::SmallVector<KernelCall>> emit(int64_t &workspace);

  mlir::OpBuilder &builder() { return b; }
  mlir::Location getLoc() const { return loc; }
  const fusion::IterationSpace &getSpace() const { return space; }
  LaneBuilder &getLanes() { return lanes; }
  mlir::Value constant(int64_t value);
  mlir::Type laneType(mlir::Type element) const;
  mlir::Value splat(mlir::Value scalar);
  mlir::Value columnLanes();
  /// The index of the current element in the current op's result, row-major, as i64 lanes.
  mlir::Value elementIndex();
  mlir::Value loadScalarSlot(unsigned slot);

  mlir::Value evaluate(const fusion::Access &access);
  mlir::Value evaluateAt(const fusion::Access &access, mlir::Value column);
  mlir::Value evaluateRow(const fusion::Access &access);
  /// All columns of the row combined.
  virtual mlir::Value reduce(ps::ReductionKind kind, const Column &column) = 0;
  std::shared_ptr<Kept> keep(Column column, mlir::Type element);
  virtual mlir::Value read(const std::shared_ptr<Kept> &kept) = 0;
  void define(mlir::Value result, Column column) { columns[result] = std::move(column); }
  void defineRow(mlir::Value result, mlir::Value scalar) { rowScalars[result] = scalar; }

protected:
  struct Partial {
    unsigned output;
    ps::ReductionKind kind;
    mlir::Type element;  ///< of the partial row
    mlir::Value pointer; ///< this chunk's partial row
    bool direct;         ///< the partial row is the result's
  };
  using Body = llvm::function_ref<void(unsigned step)>;

  // What a target decides.
  /// Begins a function; sets scalarsArgument, and entryMark before what follows.
  virtual void beginFunction(llvm::StringRef name) = 0;
  virtual void endFunction() {}
  /// The pointer that is buffer `number` of the call.
  virtual mlir::Value takeBuffer(unsigned number) = 0;
  /// Visits the rows of the call, and sets how it is cut.
  virtual void emitRows() = 0;
  /// The number of the chunk of rows that is at hand.
  virtual mlir::Value chunkNumber() = 0;
  /// Visits all columns of the row: `body(step)` at every vector, step = its number mod `unroll`.
  virtual void forColumns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried,
                          Body body) = 0;
  /// Visits `total` elements that lie in a row, `block` of them in a piece on a CPU, and sets how
  /// `call` is cut.
  virtual void forElements(int64_t total, int64_t block, KernelCall &call,
                           llvm::function_ref<void()> visit) = 0;
  /// The same for `total` sums of `chunks` numbers each.
  virtual void forSums(int64_t total, int64_t chunks, KernelCall &call,
                       llvm::function_ref<void()> visit);
  /// In `visit` of forSums: the sum of the chunks' parts of the current columns; a part is `total`
  /// numbers long.
  virtual mlir::Value addUpChunks(const Partial &partial, mlir::Value from, int64_t chunks,
                                  int64_t total);
  /// Adds the current columns of a column reduction.
  virtual void addPartial(Partial &partial, unsigned step);
  /// Under which the current columns are stored; null: always.
  virtual mlir::Value getStoreCondition() { return {}; }
  /// Before what has one value a row is stored, where it may be read too.
  virtual void beginRowOutputs() {}
  /// Bytes that an address of current columns, next to each other in memory, is a multiple of.
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
  /// Runs `fn` where the row's code stands: before the column loop being written.
  mlir::Value inRowScope(llvm::function_ref<mlir::Value()> fn);
  /// The element type that a column has.
  mlir::Type probeElement(const Column &column);
  /// What is to be added up at the current columns.
  mlir::Value evaluatePartial(Partial &partial);

  // Loops.
  void moveTo(mlir::Value column, unsigned lanes, unsigned active);
  /// Emits a loop. What a row needs once is computed in front of it, or, with `isInner`, in front
  /// of the loop around it.
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
  llvm::DenseMap<const fusion::Access *, mlir::Value> sourceAtPosition;
  llvm::DenseMap<const fusion::Access *, mlir::Value> sourceOfRow;
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
/// The identity of a reduction (`ps::getIdentity`) as a value of `type`, a scalar or a vector.
mlir::Value identityOf(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind,
                       mlir::Type type);
/// The lanes of `value` combined, halves first: places i and i + n / 2.
mlir::Value foldLanes(mlir::OpBuilder &b, mlir::Location loc, ps::ReductionKind kind,
                      mlir::Value value);

} // namespace parashard::codegen

#endif
