// From a placed module to a program: kernels as native code, and the table that says the rest.
#ifndef PARASHARD_CODEGEN_H
#define PARASHARD_CODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard {

/// How a program has the values that lie in the model's file.
enum class WeightsMode {
  Reference, ///< it reads that file when it starts
  Copy,      ///< it carries them
  None,      ///< parameters are given when it starts; it carries the rest
};

struct CodegenOptions {
  /// cpu:NAME (LLVM's name of the CPU, or native), cuda:sm_NN, or cuda:replay (kernels of a GPU as
  /// code of this machine, for the fake driver)
  std::string target = "cpu:native";
  std::string output;      ///< path; *.so gives a shared library, else an executable
  std::string model;       ///< path of the model's file, as messages name it
  std::string compileLine; ///< the command line, kept for --info
  std::string explain;     ///< text of the plan, kept for --info
  WeightsMode weights = WeightsMode::Reference;
  std::string dumpDir; ///< a GPU's kernels are also written there, as 6-native.ptx; empty: nowhere
  bool isPortable = false; ///< an executable with its libraries in a folder beside it
};

/// Writes the program of a module at level `placed`. With `oneRank`, the same model placed on one
/// rank, the program also carries that one for `--check`. The file appears whole or not at all.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, mlir::ModuleOp oneRank,
                                const CodegenOptions &options);

namespace codegen {
/// Whether programs for a target multiply 8-bit floats: GPUs do from sm_89 on, and so does replay.
bool multipliesFloat8(llvm::StringRef target);
} // namespace codegen

} // namespace parashard

#endif
