// Fuzzes the compilation of small modules from text to object code, without linking. The first line
// of an input contains options: "// compile: mesh=dp=2,tp=2 micro-batches=4".
#include "fuzz/CompilerSupport.h"
#include "lib/Codegen/Cpu/CpuKernel.h"
#include "lib/Codegen/Cpu/Target.h"
#include "lib/Codegen/Program.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace parashard;
using namespace parashard::driver;

using namespace parashard::codegen;
using namespace parashard::fusion;

/// Parses a count. Counts are limited, because the work grows with them.
static int64_t toCount(llvm::StringRef text, int64_t most) {
  int64_t value = 1;
  (void)text.getAsInteger(10, value);
  return std::clamp<int64_t>(value, -1, most);
}

/// Returns the options in the first line that have a text value.
static const llvm::StringMap<std::string CompileOptions::*> &getTexts() {
  static const llvm::StringMap<std::string CompileOptions::*> texts = {
      {"mesh", &CompileOptions::mesh},           {"policy", &CompileOptions::shardingPolicy},
      {"schedule", &CompileOptions::schedule},   {"recompute", &CompileOptions::recompute},
      {"precision", &CompileOptions::precision}, {"clip-norm", &CompileOptions::clipNorm},
      {"loss", &CompileOptions::loss},           {"offload", &CompileOptions::offload},
      {"overlap", &CompileOptions::overlap}};
  return texts;
}

static CompileOptions readOptions(llvm::StringRef line) {
  CompileOptions options;
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(line, words, " ");
  for (llvm::StringRef word : words) {
    auto [key, value] = word.split('=');
    bool isFile = (key == "policy" || key == "schedule") && value.contains('.');
    if (auto text = getTexts().find(key); text != getTexts().end() && !isFile)
      options.*text->second = value.str();
    else if (key == "micro-batches")
      options.microBatches = toCount(value, 64);
    else if (key == "chunks")
      options.numChunks = toCount(value, 8);
    else if (key == "zero")
      options.zero = toCount(value, 4);
    else if (key == "optimizer")
      options.optimizers.push_back(value.str());
    else if (key == "inference")
      options.inference = true;
    else if (key == "eval-mode")
      options.evalMode = true;
  }
  options.placement = options.schedule == "zb-v" ? "v" : "loop";
  return options;
}

static void emitObject(mlir::ModuleOp module) {
  mlir::MLIRContext &context = *module.getContext();
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::vector::VectorDialect>();
  auto target = llvm::cantFail(CpuTarget::create("native"));
  mlir::OwningOpRef<mlir::ModuleOp> object =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  KernelSet kernels(
      *object, "k", [&](auto op, auto &piece, auto &space, auto &fused, auto into, auto name) {
        return std::make_unique<CpuKernel>(op, piece, space, fused, into, name, target.getLanes());
      });
  CodegenOptions options;
  options.weights = WeightsMode::None; // other fuzz targets test files of weights
  std::string table;
  llvm::raw_string_ostream os(table);
  Payload payload;
  if (mlir::failed(ProgramTable(module, kernels).write(options, payload, os)))
    return;
  addKernelTable(*object, "psrt_program_kernels", kernels.getNames(), /*hasNullAddresses=*/false);
  setenv("XDG_CACHE_HOME", fuzz::getFolder().c_str(), /*replace=*/1); // for the objects of kernels
  (void)target.writeObjects(*object, fuzz::getFolder() + "/model.a");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  CompileOptions options = readOptions(fuzz::getFirstLine(text, "// compile: "));
  if (llvm::Error error = checkOptions(options)) {
    llvm::consumeError(std::move(error));
    return 0;
  }
  mlir::MLIRContext &context = fuzz::getCompilerContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = fuzz::loadText(context, text);
  WalkOptions walk;
  if (module && mlir::succeeded(runWalk(*module, options, walk)))
    emitObject(*module);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, [](std::string text, fuzz::Random &random) {
    return fuzz::mutateMlir(std::move(text), random);
  });
}
