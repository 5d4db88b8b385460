// Compiles kernels to PTX with LLVM's back end, without a CUDA toolkit. The CUDA driver compiles
// the PTX to machine code. For the target `cuda:replay`, compiles kernels to a shared object for
// this CPU, which executes the threads of a GPU (runtime/device/cuda/Replay.h).
#include "Target.h"
#include "CudaMath.h"
#include "dialects/ps/Refusal.h"
#include "lib/Codegen/Cpu/Target.h"
#include "lib/Codegen/Link.h"
#include "lib/Codegen/Lowering.h"
#include "lib/Support/Files.h"
#include "lib/Support/TargetName.h"
#include "parashard/Codegen.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::support;
using namespace parashard::codegen;

// Declared here, because llvm/Support/TargetSelect.h can only initialize all targets or the host's
// target.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

/// Returns the number of an architecture (90 for sm_90); 0 if the name is not of this form.
static unsigned getNumber(StringRef architecture) {
  unsigned number = 0;
  if (!architecture.consume_front("sm_") || architecture.getAsInteger(10, number))
    return 0;
  return number;
}

bool codegen::multipliesFloat8(StringRef target) {
  constexpr unsigned kMin = 89;
  return target.consume_front("cuda:") && (target == "replay" || getNumber(target) >= kMin);
}

llvm::Expected<CudaTarget> CudaTarget::create(StringRef architecture) {
  CudaTarget result;
  if (architecture == "replay")
    return result;
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  // Checks the name before the target machine is created. For an unknown name, LLVM would end the
  // process or print its own message.
  std::unique_ptr<llvm::MCSubtargetInfo> known(target->createMCSubtargetInfo(triple, "", ""));
  unsigned number = getNumber(architecture);
  if (number < support::kMinArchitecture || !known || !known->isCPUStringValid(architecture))
    return ps::createFlagError("target cuda:" + architecture,
                               ": unsupported architecture; use sm_80, sm_90, sm_100 or "
                               "another architecture from sm_80 on, without a letter suffix");
  // Asks for PTX 8.0 on these older architectures. For newer ones, LLVM selects the PTX version.
  bool hasPtx80 = llvm::is_contained({80u, 86u, 87u, 89u, 90u}, number);
  result.machine.reset(target->createTargetMachine(triple, architecture, hasPtx80 ? "+ptx80" : "",
                                                   llvm::TargetOptions(), llvm::Reloc::PIC_,
                                                   std::nullopt, llvm::CodeGenOptLevel::Default));
  return result;
}

static FailureOr<std::string> makePtx(ModuleOp kernels, llvm::TargetMachine &machine) {
  if (failed(lowerKernels(kernels, /*hasExp2=*/true)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateKernels(kernels, context, machine);
  if (!module)
    return failure();
  llvm::Error error = optimizeKernels(*module, machine);
  if (error)
    return ps::reportError(kernels, std::move(error));
  auto text = makeCode(*module, machine, llvm::CodeGenFileType::AssemblyFile);
  if (!text)
    return ps::reportError(kernels, text.takeError());
  return std::move(*text);
}

static FailureOr<std::string> makeReplay(ModuleOp kernels) {
  auto fail = [&](llvm::Error error) {
    ps::reportError(kernels, std::move(error));
    return failure();
  };
  auto host = CpuTarget::create("native");
  if (!host)
    return fail(host.takeError());
  llvm::Expected<PrivateFolder> folder = PrivateFolder::create();
  if (!folder)
    return fail(folder.takeError());
  std::string archive = folder->name("replay.a"), library = folder->name("replay.so");
  if (failed(host->writeObjects(kernels, archive)))
    return failure();
  auto linked = linkProgram(archive, library, Payload());
  if (!linked)
    return fail(linked.takeError());
  auto bytes = llvm::MemoryBuffer::getFile(library, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!bytes)
    return fail(llvm::createStringError(bytes.getError(), "cannot read a temporary file"));
  return (*bytes)->getBuffer().str();
}

FailureOr<std::string> CudaTarget::makeImage(ModuleOp kernels) const {
  expandCudaMath(kernels);
  return machine ? makePtx(kernels, *machine) : makeReplay(kernels);
}
