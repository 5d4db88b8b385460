// From kernels in MLIR to an object file for one CPU: the recipe of docs/rationale.md.
#include "Target.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

namespace {
/// Expands math functions into polynomials: a left-over libm call of a vector would be made lane by
/// lane.
struct ExpandMath : PassWrapper<ExpandMath, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  StringRef getName() const override { return "expand-math"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns, MathPolynomialApproximationOptions{});
    math::populateExpansionPatterns(patterns, {"rsqrt", "roundeven", "powf"});
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};
} // namespace

namespace {
/// Calls libm, lane by lane, for functions of f64: exact comparisons, not speed.
struct CallMathOfDoubles : PassWrapper<CallMathOfDoubles, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CallMathOfDoubles)
  StringRef getName() const override { return "call-math-of-doubles"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect, func::FuncDialect>();
  }
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp, math::SinOp, math::CosOp,
              math::PowFOp, math::Log1pOp, math::ExpM1Op>(op) &&
          getElementTypeOrSelf(op->getResult(0).getType()).isF64())
        ops.push_back(op);
    });
    RewritePatternSet patterns(&getContext());
    populateMathToLibmConversionPatterns(patterns);
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    (void)applyOpPatternsGreedily(ops, std::move(patterns), config);
  }
};
} // namespace

llvm::Expected<CpuTarget> CpuTarget::create(StringRef cpu) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  CpuTarget result;
  result.cpu = cpu == "native" ? llvm::sys::getHostCPUName().str() : cpu.str();
  result.machine.reset(target->createTargetMachine(triple, result.cpu, "", llvm::TargetOptions(),
                                                   llvm::Reloc::PIC_, std::nullopt,
                                                   llvm::CodeGenOptLevel::Default));
  const llvm::MCSubtargetInfo &info = *result.machine->getMCSubtargetInfo();
  if (!info.isCPUStringValid(result.cpu))
    return llvm::createStringError(
        "--target cpu:" + result.cpu +
        ": unknown CPU; take native, x86-64-v3, x86-64-v4 or a name that clang's -mcpu takes");
  auto has = [&](StringRef feature) { return info.checkFeatures(("+" + feature).str()); };
  result.lanes = 4;
  if (triple.isX86())
    result.lanes = has("avx512f") ? 16 : has("avx2") ? 8 : 4;
  return result;
}

static LogicalResult lower(ModuleOp module) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addPass(createCSEPass());
  math::MathExtendToSupportedTypesOptions extend; // 16-bit math in f32
  extend.targetTypeStr = "f32";
  pm.addPass(math::createMathExtendToSupportedTypes(extend));
  pm.addPass(std::make_unique<ExpandMath>());
  pm.addPass(std::make_unique<CallMathOfDoubles>());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

/// Functions of one f64 that CallMathOfDoubles calls.
static bool isMathOfDoubles(const llvm::Function &function) {
  static constexpr StringRef kNames[] = {"exp", "log", "tanh",  "erf",  "sin",
                                         "cos", "pow", "log1p", "expm1"};
  return llvm::is_contained(kNames, function.getName()) && function.getReturnType()->isDoubleTy();
}

/// Intrinsics that the back end would turn into a call of libm, one a lane.
static bool callsLibrary(const llvm::Function &function) {
  if (!function.isIntrinsic())
    return !isMathOfDoubles(function);
  if (function.getReturnType()->isDoubleTy())
    return false;
  static constexpr llvm::Intrinsic::ID kCalls[] = {
      llvm::Intrinsic::pow,  llvm::Intrinsic::exp,  llvm::Intrinsic::exp2, llvm::Intrinsic::log,
      llvm::Intrinsic::log2, llvm::Intrinsic::sin,  llvm::Intrinsic::cos,  llvm::Intrinsic::tan,
      llvm::Intrinsic::tanh, llvm::Intrinsic::log10};
  return llvm::is_contained(kCalls, function.getIntrinsicID());
}

/// Kernels stand alone.
static LogicalResult checkCalls(ModuleOp kernels, const llvm::Module &module) {
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.use_empty() && callsLibrary(function))
      return kernels.emitError() << "generated code calls '" << function.getName().str()
                                 << "', which no kernel may";
  return success();
}

LogicalResult CpuTarget::writeObject(ModuleOp kernels, StringRef path) const {
  if (failed(lower(kernels)))
    return failure();
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernels, context);
  if (!module)
    return failure();
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout()); // without both nothing is vectorized
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", std::to_string(lanes * 32));
    function.addFnAttr("target-cpu", cpu);
    function.setDoesNotThrow();
  }
  optimize(*module, *machine);
  if (failed(checkCalls(kernels, *module)))
    return failure();
  std::error_code code;
  llvm::raw_fd_ostream os(path, code, llvm::sys::fs::OF_None);
  if (code)
    return kernels.emitError() << "cannot write " << path << ": " << code.message();
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return kernels.emitError() << "the CPU " << cpu << " has no object files";
  codegen.run(*module);
  os.flush();
  if (std::error_code failed = os.error()) {
    os.clear_error();
    return kernels.emitError() << "cannot write " << path << ": " << failed.message();
  }
  return success();
}

void codegen::addBytes(ModuleOp module, StringRef symbol, StringRef bytes, bool withSize) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = b.getUnknownLoc();
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
  LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External, symbol,
                         b.getStringAttr(bytes), 64);
  if (withSize)
    LLVM::GlobalOp::create(b, loc, b.getI64Type(), /*isConstant=*/true, LLVM::Linkage::External,
                           (symbol + "_size").str(), b.getI64IntegerAttr(bytes.size()), 8);
}

void codegen::addKernelTable(ModuleOp module, StringRef symbol, ArrayRef<std::string> kernels) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = b.getUnknownLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMArrayType::get(pointer, std::max<size_t>(1, kernels.size()));
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External,
                                       symbol, Attribute(), 64);
  Block *block = b.createBlock(&global.getInitializerRegion());
  b.setInsertionPointToStart(block);
  Value table = kernels.empty() ? Value(LLVM::ZeroOp::create(b, loc, type))
                                : LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, kernel] : llvm::enumerate(kernels)) {
    Value address = LLVM::AddressOfOp::create(b, loc, pointer, kernel);
    table = LLVM::InsertValueOp::create(b, loc, table, address, int64_t(i));
  }
  LLVM::ReturnOp::create(b, loc, table);
}
