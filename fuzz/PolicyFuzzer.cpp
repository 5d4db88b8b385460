// Fuzzes the reader of sharding files (`--sharding-policy FILE.json`).
#include "fuzz/ImportSupport.h"
#include "fuzz/JsonMutator.h"
#include "lib/Sharding/Policy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace parashard;

/// Two parameters, one of them with two names, on a mesh with two axes.
static const char kModule[] = R"(
ps.mesh @mesh <"dp" = 2 : data, "tp" = 4 : tensor>
ps.variable parameter @"layers.0.weight" names ["layers.0.weight", "tied"] : tensor<8x6xf32>
ps.variable parameter @"layers.0.bias" names ["layers.0.bias"] : tensor<8xf32>
)";

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext &context = fuzz::getContext();
  context.loadDialect<ps::PSDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  auto graph = sharding::ShardingGraph::buildVariables(*module, ps::getMesh(*module));
  std::vector<std::string> notes;
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto seeds = sharding::seedFromFile(graph, text, "policy.json", notes);
  if (!seeds)
    llvm::consumeError(seeds.takeError());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
