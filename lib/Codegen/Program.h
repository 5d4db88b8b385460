// Writes the program table of a placed module: the JSON object that docs/program-format.md
// describes.
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

/// Returns a JSON number. JSON has no infinities and NaN, which become strings.
llvm::json::Value toNumber(double value);

/// Sets "shape" and "local" of a tensor. Sets "factors" and "partial" unless `sharding` is null
/// (replicated).
void describePlacement(llvm::json::Object &object, mlir::RankedTensorType global,
                       ps::ShardingAttr sharding, ps::MeshOp mesh);

/// Returns the result of `get` or, with a pipeline, a list of its results for all coordinates. The
/// list has null where `get` returns nullopt.
llvm::json::Value
describeByCoordinate(mlir::ModuleOp module,
                     llvm::function_ref<std::optional<int64_t>(int64_t coordinate)> get);

/// Writes "variables", with addresses and initial values, and "files", the files that contain
/// initial values (path, bytes, hash). Adds weights that are copied into the program to `payload`.
/// `adders` maps a variable to the pipeline coordinate of the `rank.run`s that accumulate into it,
/// or write it outside of the update. Fails with a diagnostic if a file cannot be read.
mlir::LogicalResult writeVariables(mlir::ModuleOp module, WeightsMode mode,
                                   const llvm::StringMap<int64_t> &adders, Payload &payload,
                                   llvm::json::OStream &json);

/// Writes the inputs, the programs, and the functions and variables that the programs use.
class ProgramTable {
public:
  ProgramTable(mlir::ModuleOp module, KernelSet &kernels)
      : module(module), symbols(module), stages(ir::getStages(module)), kernels(kernels) {}
  /// Writes the whole table as one JSON object. Fails after a diagnostic.
  mlir::LogicalResult write(const CodegenOptions &options, Payload &payload, llvm::raw_ostream &os);

private:
  struct Entry;
  struct CodePosition;
  std::optional<int64_t> getFunction(llvm::StringRef name);
  mlir::LogicalResult writeProgram(rank::ProgramOp program);
  void addBuffers(rank::ProgramOp program, llvm::ArrayRef<CodePosition> positions,
                  std::vector<Entry> &entries);
  std::optional<llvm::json::Object> writeRun(rank::RunOp run, llvm::StringSet<> &accumulated);
  int64_t numberToken(mlir::Value token);
  template <typename Op>
  llvm::json::Object writeMessage(Op op, llvm::StringRef name, llvm::StringRef role,
                                  mlir::Value buffer);
  void writeStart(rank::StartOp start, llvm::json::Array &code);
  /// Writes an instruction that copies variables from host to device memory. With `toHost`, the
  /// copies go from device to host.
  llvm::json::Object writeStaging(mlir::ValueRange staged, bool toHost, mlir::Value token);
  /// Writes an instruction that copies values between device and host memory.
  llvm::json::Object writeStash(mlir::Operation *op, bool toHost);
  void addInput(rank::InputOp input, llvm::StringRef entry);
  llvm::json::Object writeOutput(rank::OutputOp output);
  int64_t getAddress(mlir::Value value);
  int64_t getVariableAddress(mlir::FlatSymbolRefAttr symbol);
  llvm::json::Object describeDefaults();

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  ir::Stages stages;
  KernelSet &kernels;
  // Uses deques, because a growing vector would copy its objects.
  std::deque<llvm::json::Object> inputs, functions, programs;
  llvm::StringMap<int64_t> functionNumbers;
  llvm::StringMap<size_t> inputNumbers;
  llvm::DenseMap<mlir::Value, int64_t> tokenNumbers; ///< by token of an asynchronous op
  llvm::StringMap<int64_t> adders; ///< coordinates by variable; see `writeVariables`
  int64_t microBatches = 1;
  int64_t pp = 0; ///< the current program's pipeline coordinate
};

} // namespace parashard::codegen

#endif
