// Fuzzes pass pipelines on modules of each level. The first line of an input is "// passes:
// PIPELINE", with the passes that lower the module to the next level.
#include "fuzz/CompilerSupport.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  mlir::MLIRContext &context = fuzz::getCompilerContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = fuzz::loadText(context, text);
  if (!module)
    return 0;
  mlir::PassManager pm(&context, mlir::ModuleOp::getOperationName());
  std::string pipeline = fuzz::getFirstLine(text, "// passes: ");
  if (mlir::succeeded(mlir::parsePassPipeline(pipeline, pm, llvm::nulls())))
    (void)pm.run(*module);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, [](std::string text, fuzz::Random &random) {
    return fuzz::mutateMlir(std::move(text), random);
  });
}
