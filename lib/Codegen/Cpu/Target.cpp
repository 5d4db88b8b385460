// Writes object files for one CPU (docs/rationale.md, "CPU code" and "Kernels are compiled once").
#include "Target.h"
#include "dialects/ps/Refusal.h"
#include "lib/Codegen/KernelModules.h"
#include "lib/Codegen/Lowering.h"
#include "lib/Support/FileCache.h"
#include "lib/Support/Files.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/TargetParser/Host.h"
#include <atomic>
#include <mutex>

using namespace mlir;
using namespace parashard;
using namespace parashard::support;
using namespace parashard::codegen;

/// Fails unless `cpu` can run code for `triple`. Must run before the target machine is created. For
/// an unknown name, LLVM would print its own message or end the process.
static llvm::Error checkCpu(const llvm::Target &target, const llvm::Triple &triple, StringRef cpu) {
  std::unique_ptr<llvm::MCSubtargetInfo> all(target.createMCSubtargetInfo(triple, "", ""));
  if (!all || !all->isCPUStringValid(cpu))
    return ps::createFlagError("target cpu:" + cpu,
                               ": unknown CPU; use native, x86-64-v3, x86-64-v4 or a name that "
                               "`clang --print-supported-cpus` lists");
  std::unique_ptr<llvm::MCSubtargetInfo> chosen(target.createMCSubtargetInfo(triple, cpu, ""));
  if (triple.isX86() && !chosen->checkFeatures("+64bit"))
    return ps::createFlagError("target cpu:" + cpu,
                               ": this CPU does not run the 64-bit code of programs; use native, "
                               "x86-64-v3 or x86-64-v4");
  return llvm::Error::success();
}

static std::unique_ptr<llvm::TargetMachine> createMachine(const llvm::Target &target,
                                                          StringRef cpu) {
  return std::unique_ptr<llvm::TargetMachine>(target.createTargetMachine(
      llvm::Triple(llvm::sys::getDefaultTargetTriple()), cpu, "", llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
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
  result.machine = createMachine(*target, result.cpu);
  const llvm::MCSubtargetInfo &info = *result.machine->getMCSubtargetInfo();
  auto has = [&](StringRef feature) { return info.checkFeatures(("+" + feature).str()); };
  result.lanes = 4;
  if (triple.isX86())
    result.lanes = has("avx512f") ? 16 : has("avx2") ? 8 : 4;
  return result;
}

/// A module of LLVM IR with its own context.
struct CpuTarget::Translated {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::string object; ///< result of compileKernels
};

LogicalResult CpuTarget::translate(ModuleOp source, Translated &result) const {
  result.module = translateKernels(source, result.context, *machine);
  if (!result.module)
    return failure();
  for (llvm::Function &function : *result.module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", std::to_string(lanes * 32));
    function.addFnAttr("target-cpu", cpu);
    function.setDoesNotThrow();
  }
  return success();
}

static llvm::Error compileKernel(llvm::Module &module, llvm::TargetMachine &machine,
                                 std::string &object) {
  if (llvm::Error error = optimizeKernels(module, machine))
    return error;
  return makeCode(module, machine, llvm::CodeGenFileType::ObjectFile).moveInto(object);
}

llvm::Error CpuTarget::compileKernels(std::deque<Translated> &kernels) const {
  std::atomic<size_t> next = 0;
  std::mutex mutex; // protects `errors`
  llvm::Error errors = llvm::Error::success();
  llvm::DefaultThreadPool pool;
  for (size_t i = 0; i < std::min<size_t>(kernels.size(), pool.getMaxConcurrency()); ++i)
    pool.async([&] {
      std::unique_ptr<llvm::TargetMachine> own = createMachine(machine->getTarget(), cpu);
      for (size_t k = next++; k < kernels.size(); k = next++) {
        llvm::Error error = compileKernel(*kernels[k].module, *own, kernels[k].object);
        std::lock_guard<std::mutex> lock(mutex);
        errors = llvm::joinErrors(std::move(errors), std::move(error));
      }
    });
  pool.wait();
  return errors;
}

/// Returns the object file of each kernel, in order. `kernels` contains one module per kernel. If
/// the cache has the object of a kernel, takes this object and erases the kernel's module. Compiles
/// the other kernels, whose modules are lowered in place, and adds their objects to the cache.
FailureOr<std::vector<std::string>> CpuTarget::makeKernels(ModuleOp kernels) const {
  constexpr uint64_t kMaxCacheBytes = 256 << 20;
  FileCache cache("kernels", kMaxCacheBytes);
  std::vector<std::string> objects;
  struct NewKernel {
    size_t index;
    std::string key;
  };
  std::vector<NewKernel> newKernels;
  for (auto kernel : llvm::make_early_inc_range(kernels.getOps<ModuleOp>())) {
    std::string key = machine->getTargetTriple().str() + "|" + cpu + "|";
    llvm::raw_string_ostream(key) << kernel;
    std::optional<std::string> object = cache.find(key);
    if (object)
      kernel.erase();
    else
      newKernels.push_back({objects.size(), std::move(key)});
    objects.push_back(object.value_or(""));
  }
  if (failed(lowerKernelModules(kernels)))
    return failure();
  std::deque<Translated> translated;
  for (ModuleOp kernel : kernels.getOps<ModuleOp>())
    if (failed(translate(kernel, translated.emplace_back())))
      return failure();
  if (llvm::Error error = compileKernels(translated))
    return ps::reportError(kernels, std::move(error));
  for (auto [kernel, result] : llvm::zip_equal(newKernels, translated)) {
    cache.keep(kernel.key, result.object);
    objects[kernel.index] = std::move(result.object);
  }
  return objects;
}

LogicalResult CpuTarget::writeObjects(ModuleOp module, StringRef path) const {
  OwningOpRef<ModuleOp> kernels = divideKernels(module);
  FailureOr<std::vector<std::string>> objects = makeKernels(*kernels);
  Translated globals;
  if (failed(objects) || failed(translate(module, globals)))
    return failure();
  auto object = makeCode(*globals.module, *machine, llvm::CodeGenFileType::ObjectFile);
  if (!object)
    return ps::reportError(module, object.takeError());
  objects->push_back(std::move(*object));
  std::vector<llvm::NewArchiveMember> members;
  for (const std::string &bytes : *objects)
    members.emplace_back(llvm::MemoryBufferRef(bytes, "kernel.o"));
  // Write one file: many files may take longer to create than to compile.
  llvm::Error error = writeAtomically(
      path,
      [&](llvm::raw_ostream &os) {
        return llvm::writeArchiveToStream(os, members, llvm::SymtabWritingMode::NormalSymtab,
                                          llvm::object::Archive::K_GNU, /*Deterministic=*/true,
                                          /*Thin=*/false);
      },
      0666);
  return error ? LogicalResult(ps::reportError(module, std::move(error))) : success();
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
                             bool hasNullAddresses) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = b.getUnknownLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMArrayType::get(pointer, std::max<size_t>(1, kernels.size()));
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External,
                                       symbol, Attribute(), 64);
  Block *block = b.createBlock(&global.getInitializerRegion());
  b.setInsertionPointToStart(block);
  Value table = kernels.empty() || hasNullAddresses ? Value(LLVM::ZeroOp::create(b, loc, type))
                                                    : LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, kernel] : llvm::enumerate(hasNullAddresses ? ArrayRef<std::string>() : kernels)) {
    Value address = LLVM::AddressOfOp::create(b, loc, pointer, kernel);
    table = LLVM::InsertValueOp::create(b, loc, table, address, int64_t(i));
  }
  LLVM::ReturnOp::create(b, loc, table);
}
