// ps-opt: reads a module, runs passes and prints the result.
#include "mlir/Debug/CLOptionsSetup.h"
#include "mlir/Debug/Counter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "parashard/Driver.h"
#include "tools/CommandLine.h"
#include "llvm/Support/CommandLine.h"

/// Registers the options of MLIR, and hides those that are not about passes and files, so that
/// `--help` shows Parashard's passes first. `--help-hidden` shows all.
static void hideOptions(mlir::DialectRegistry &registry) {
  mlir::MlirOptMainConfig::registerCLOptions(registry);
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::tracing::DebugCounter::registerCLOptions();
  parashard::hideLibraryOptions();
  // All passes are one option, which is found under the name of any pass.
  for (llvm::StringRef name : {"ps-fuse", "pass-pipeline", "mlir-print-ir-after-all"})
    if (llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup(name))
      option->setHiddenFlag(llvm::cl::NotHidden);
}

int main(int argc, char **argv) {
  parashard::reportFailedWrites();
  parashard::setVersion();
  mlir::DialectRegistry registry;
  parashard::driver::registerEverything(registry);
  parashard::driver::registerAllPasses();
  hideOptions(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Runs Parashard passes on a module (.mlir)\n", registry));
}
