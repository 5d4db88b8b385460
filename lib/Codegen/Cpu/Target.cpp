// Writes an object file for one CPU (docs/rationale.md, "CPU code").
#include "Target.h"
#include "dialects/ps/Refusal.h"
#include "lib/Codegen/Lowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

/// Fails unless `cpu` can run code for `triple`. Must run before the target machine is created. For
/// an unknown name, LLVM would print its own message or end the process.
static llvm::Error checkCpu(const llvm::Target &target, const llvm::Triple &triple, StringRef cpu) {
  std::unique_ptr<llvm::MCSubtargetInfo> all(target.createMCSubtargetInfo(triple, "", ""));
  if (!all || !all->isCPUStringValid(cpu))
    return ps::createFlagError(
        "target cpu:" + cpu,
        ": unknown CPU; use native, x86-64-v3, x86-64-v4 or a name that clang's -mcpu accepts");
  std::unique_ptr<llvm::MCSubtargetInfo> chosen(target.createMCSubtargetInfo(triple, cpu, ""));
  if (triple.isX86() && !chosen->checkFeatures("+64bit"))
    return ps::createFlagError("target cpu:" + cpu,
                               ": this CPU does not run the 64-bit code of programs; use native, "
                               "x86-64-v3 or x86-64-v4");
  return llvm::Error::success();
}

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
  if (llvm::Error unknown = checkCpu(*target, triple, result.cpu))
    return std::move(unknown);
  result.machine.reset(target->createTargetMachine(triple, result.cpu, "", llvm::TargetOptions(),
                                                   llvm::Reloc::PIC_, std::nullopt,
                                                   llvm::CodeGenOptLevel::Default));
  const llvm::MCSubtargetInfo &info = *result.machine->getMCSubtargetInfo();
  auto has = [&](StringRef feature) { return info.checkFeatures(("+" + feature).str()); };
  result.lanes = 4;
  if (triple.isX86())
    result.lanes = has("avx512f") ? 16 : has("avx2") ? 8 : 4;
  return result;
}

LogicalResult CpuTarget::writeObject(ModuleOp kernels, StringRef path) const {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateKernels(kernels, context, *machine);
  if (!module)
    return failure();
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", std::to_string(lanes * 32));
    function.addFnAttr("target-cpu", cpu);
    function.setDoesNotThrow();
  }
  if (failed(optimizeKernels(kernels, *module, *machine)))
    return failure();
  std::error_code code;
  llvm::raw_fd_ostream os(path, code, llvm::sys::fs::OF_None);
  if (code)
    return kernels.emitError() << "cannot write " << path << ": " << code.message();
  if (failed(writeCode(kernels, *module, *machine, llvm::CodeGenFileType::ObjectFile, os)))
    return failure();
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

void codegen::addKernelTable(ModuleOp module, StringRef symbol, ArrayRef<std::string> kernels,
                             bool isEmpty) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = b.getUnknownLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMArrayType::get(pointer, std::max<size_t>(1, kernels.size()));
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External,
                                       symbol, Attribute(), 64);
  Block *block = b.createBlock(&global.getInitializerRegion());
  b.setInsertionPointToStart(block);
  Value table = kernels.empty() || isEmpty ? Value(LLVM::ZeroOp::create(b, loc, type))
                                           : LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, kernel] : llvm::enumerate(isEmpty ? ArrayRef<std::string>() : kernels)) {
    Value address = LLVM::AddressOfOp::create(b, loc, pointer, kernel);
    table = LLVM::InsertValueOp::create(b, loc, table, address, int64_t(i));
  }
  LLVM::ReturnOp::create(b, loc, table);
}
