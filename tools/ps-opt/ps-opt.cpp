// The tool that reads a module, runs passes over it, and prints it.
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "parashard/Driver.h"
#include "tools/CommandLine.h"

int main(int argc, char **argv) {
  parashard::reportFailedWrites();
  parashard::setVersion();
  mlir::DialectRegistry registry;
  parashard::registerEverything(registry);
  parashard::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Parashard's passes over a module (.mlir)\n", registry));
}
