// The table of a placed module: what docs/program-format.md calls the program.
#ifndef PARASHARD_LIB_CODEGEN_PROGRAM_H
#define PARASHARD_LIB_CODEGEN_PROGRAM_H

#include "KernelSet.h"
#include "Payload.h"
#include "dialects/rank/Rank.h"
#include "lib/IR/Stages.h"
#include "parashard/Codegen.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include <deque>

namespace parashard::codegen {

/// "shape", "local", "factors" and "partial" of a tensor laid out by `sharding` (null: whole
/// everywhere).
void describePlacement(llvm::json::Object &object, mlir::RankedTensorType global,
                       ps::ShardingAttr sharding, ps::MeshOp mesh);

/// A number, or, of a pipeline, a list of what `get` says of each coordinate.
llvm::json::Value
describeByCoordinate(mlir::ModuleOp module,
                     llvm::function_ref<std::optional<int64_t>(int64_t coordinate)> get);

/// Writes "variables", with addresses and initial values, and "files", those that initial values
/// lie in: path, bytes, hash. Weights that the program is to carry are added to `payload`; `adders`
/// has the pipeline coordinate at which each accumulator is added to. Fails after a diagnostic (a
/// file that cannot be read).
mlir::LogicalResult writeVariables(mlir::ModuleOp module, WeightsMode mode,
                                   const llvm::StringMap<int64_t> &adders, Payload &payload,
                                   llvm::json::OStream &json);

/// The inputs, the programs, and what follows from them.
class ProgramTable {
public:
  ProgramTable(mlir::ModuleOp module, KernelSet &kernels)
      : module(module), symbols(module), stages(ps::getStages(module)), kernels(kernels) {}
  /// Writes the whole table, as one JSON object; fails after a diagnostic.
  mlir::LogicalResult write(const CodegenOptions &options, Payload &payload, llvm::raw_ostream &os);

private:
  struct Entry;
  struct CodePosition;
  std::optional<int64_t> getFunction(llvm::StringRef name);
  mlir::LogicalResult writeProgram(rank::ProgramOp program);
  void addBuffers(rank::ProgramOp program, llvm::ArrayRef<CodePosition> places,
                  std::vector<Entry> &entries);
  std::optional<llvm::json::Object> writeRun(rank::RunOp run, llvm::StringSet<> &accumulated,
                                             bool flags);
  int64_t numberToken(mlir::Value token);
  template <typename Op>
  llvm::json::Object writeMessage(Op op, llvm::StringRef name, llvm::StringRef role,
                                  mlir::Value buffer);
  void writeStart(rank::StartOp start, llvm::json::Array &code);
  /// Copies of variables between where they lie and where they are staged; back with `toHost`.
  llvm::json::Object writeStaging(mlir::ValueRange staged, bool toHost, mlir::Value token);
  /// Copies of values between the device's memory and the host's.
  llvm::json::Object writeStash(mlir::Operation *op, bool toHost);
  void addInput(rank::InputOp input, llvm::StringRef entry);
  llvm::json::Object writeOutput(rank::OutputOp output);
  int64_t getAddress(mlir::Value value);
  int64_t getVariableAddress(mlir::FlatSymbolRefAttr symbol);
  llvm::json::Object describeDefaults();

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  ps::Stages stages;
  KernelSet &kernels;
  // Of deques: a vector of objects copies them when it grows.
  std::deque<llvm::json::Object> inputs, functions, programs;
  llvm::StringMap<int64_t> functionNumbers;
  llvm::StringMap<size_t> inputNumbers;
  llvm::DenseMap<mlir::Value, int64_t> tokenNumbers; ///< of started collectives
  llvm::StringMap<int64_t> adders;                   ///< where each accumulator is added to
  int64_t microBatches = 1;
  int64_t pp = 0; ///< the pipeline coordinate whose program is written
};

} // namespace parashard::codegen

#endif
