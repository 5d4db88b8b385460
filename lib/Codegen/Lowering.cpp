// Lowers kernels in MLIR to LLVM IR, for all targets.
#include "Lowering.h"
#include "ExpandMath.h"
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
#include "llvm/Passes/PassBuilder.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

namespace {
/// Expands math functions into polynomials. A remaining libm call on a vector would run lane by
/// lane.
struct ExpandMath : PassWrapper<ExpandMath, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  explicit ExpandMath(bool hasExp2) : hasExp2(hasExp2) {}
  StringRef getName() const override { return "expand-math"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns, MathPolynomialApproximationOptions{});
    math::populateExpansionPatterns(patterns, {"rsqrt", "roundeven"});
    populateMathPatterns(patterns, hasExp2);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }

private:
  bool hasExp2;
};
} // namespace

namespace {
/// An op of the math dialect, and the libm function that computes it in f64.
struct LibmFunction {
  StringRef op, name;
};
constexpr LibmFunction kDoubleFunctions[] = {
    {math::ExpOp::getOperationName(), "exp"},     {math::LogOp::getOperationName(), "log"},
    {math::TanhOp::getOperationName(), "tanh"},   {math::ErfOp::getOperationName(), "erf"},
    {math::SinOp::getOperationName(), "sin"},     {math::CosOp::getOperationName(), "cos"},
    {math::AtanOp::getOperationName(), "atan"},   {math::PowFOp::getOperationName(), "pow"},
    {math::Log1pOp::getOperationName(), "log1p"}, {math::ExpM1Op::getOperationName(), "expm1"},
    {math::Exp2Op::getOperationName(), "exp2"}};

/// Calls libm, lane by lane, for f64 functions. The calls need not be fast, because models with f64
/// tensors mainly serve tests that compare results exactly.
struct CallMathOfDoubles : PassWrapper<CallMathOfDoubles, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CallMathOfDoubles)
  StringRef getName() const override { return "call-math-of-doubles"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect, func::FuncDialect>();
  }
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      StringRef name = op->getName().getStringRef();
      auto isCalled = [&](const LibmFunction &function) { return function.op == name; };
      if (llvm::any_of(kDoubleFunctions, isCalled) &&
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

/// `hasExp2`: whether the back end has an instruction for exp2 of f32.
static void addLowering(OpPassManager &pm, bool hasExp2) {
  pm.addPass(createCSEPass());
  math::MathExtendToSupportedTypesOptions extend; // 16-bit math runs in f32
  extend.targetTypeStr = "f32";
  pm.addPass(math::createMathExtendToSupportedTypes(extend));
  pm.addPass(std::make_unique<ExpandMath>(hasExp2));
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
}

LogicalResult codegen::lowerKernels(ModuleOp kernels, bool hasExp2) {
  PassManager pm(kernels.getContext(), ModuleOp::getOperationName());
  addLowering(pm, hasExp2);
  return pm.run(kernels);
}

LogicalResult codegen::lowerKernelModules(ModuleOp modules) {
  PassManager pm(modules.getContext(), ModuleOp::getOperationName());
  addLowering(pm.nest<ModuleOp>(), /*hasExp2=*/false);
  return pm.run(modules);
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

/// Returns true for the f64 functions of libm that CallMathOfDoubles calls.
static bool isMathOfDoubles(const llvm::Function &function) {
  auto isIt = [&](const LibmFunction &known) { return known.name == function.getName(); };
  return llvm::any_of(kDoubleFunctions, isIt) && function.getReturnType()->isDoubleTy();
}

/// Returns true for functions that a kernel must not call: intrinsics that the back end would turn
/// into one libm call per lane (except f64 intrinsics), and functions that are not intrinsics
/// (except the f64 math functions).
static bool callsLibrary(const llvm::Function &function) {
  if (!function.isIntrinsic())
    return !isMathOfDoubles(function);
  if (function.getReturnType()->getScalarType()->isDoubleTy()) // may call libm
    return false;
  static constexpr llvm::Intrinsic::ID kCalls[] = {
      llvm::Intrinsic::pow,  llvm::Intrinsic::exp,  llvm::Intrinsic::exp2, llvm::Intrinsic::log,
      llvm::Intrinsic::log2, llvm::Intrinsic::sin,  llvm::Intrinsic::cos,  llvm::Intrinsic::tan,
      llvm::Intrinsic::tanh, llvm::Intrinsic::log10};
  bool isInstruction = function.getIntrinsicID() == llvm::Intrinsic::exp2 &&
                       function.getParent()->getTargetTriple().isNVPTX();
  return llvm::is_contained(kCalls, function.getIntrinsicID()) && !isInstruction;
}

/// Checks that kernels call no function for which `callsLibrary` returns true.
static llvm::Error checkCalls(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.use_empty() && callsLibrary(function))
      return llvm::createStringError("generated code calls '" + function.getName() +
                                     "', but kernels may only call f64 math functions");
  return llvm::Error::success();
}

std::unique_ptr<llvm::Module> codegen::translateKernels(ModuleOp kernels,
                                                        llvm::LLVMContext &context,
                                                        llvm::TargetMachine &machine) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernels, context);
  if (!module)
    return nullptr;
  module->setTargetTriple(machine.getTargetTriple());
  module->setDataLayout(machine.createDataLayout()); // needed for vectorization
  return module;
}

llvm::Error codegen::optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine) {
  optimize(module, machine);
  return checkCalls(module);
}

llvm::Expected<std::string> codegen::makeCode(llvm::Module &module, llvm::TargetMachine &machine,
                                              llvm::CodeGenFileType type) {
  llvm::SmallString<0> code;
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, os, nullptr, type))
    return llvm::createStringError("cannot write code for " + machine.getTargetCPU());
  codegen.run(module);
  return code.str().str();
}
