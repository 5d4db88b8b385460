// Declares code generation, which writes a module of level `placed` as a program: native kernels
// and a table of instructions.
#ifndef PARASHARD_CODEGEN_H
#define PARASHARD_CODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard::codegen {

/// How a program gets the weights of the model's file.
enum class WeightsMode {
  Reference, ///< the program reads the model's file when it starts
  Copy,      ///< the program contains a copy of the weights
  None, ///< at start, the user passes all parameters without a distribution (`--init`); the program
        ///< contains all other values
};

struct CodegenOptions {
  /// cpu:NAME (an LLVM CPU name, or native), cuda:sm_NN, or cuda:replay (GPU kernels compiled for
  /// the host, for the fake driver).
  std::string target = "cpu:native";
  std::string output;      ///< path of the program: a shared library for *.so, else an executable
  std::string model;       ///< path of the model's file, as printed in messages
  std::string compileLine; ///< command line, shown by --info
  std::string explain;     ///< text of the plan, shown by --info
  WeightsMode weights = WeightsMode::Reference;
  std::string dumpDir;     ///< folder for a copy of the GPU kernels (6-native.ptx); empty: no copy
  bool isPortable = false; ///< write an executable that finds its libraries in the folder OUT.libs
};

/// Writes the program of a module at level `placed`, atomically. `oneRank` is null, or the same
/// model placed on one rank. With `oneRank`, the program contains both versions, for `--check`.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, mlir::ModuleOp oneRank,
                                const CodegenOptions &options);

/// Returns true if `target` supports fp8 matmuls: GPUs from sm_89 on, and cuda:replay.
bool multipliesFloat8(llvm::StringRef target);
} // namespace parashard::codegen

#endif
