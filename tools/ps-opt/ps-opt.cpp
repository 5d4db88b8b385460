// ps-opt: reads a module, runs passes and prints the result.
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "parashard/Driver.h"
#include "tools/CommandLine.h"

int main(int argc, char **argv) {
  parashard::reportFailedWrites();
  parashard::setVersion();
  parashard::hideLibraryOptions();
  mlir::DialectRegistry registry;
  parashard::driver::registerEverything(registry);
  parashard::driver::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Runs Parashard passes on a module (.mlir)\n", registry));
}
