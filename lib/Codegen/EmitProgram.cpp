// Implements emitProgram: compiles the program table and the kernels of a placed module to an
// object, and links the object to a program.
#include "Cpu/CpuKernel.h"
#include "Cpu/Target.h"
#include "Cuda/CudaKernel.h"
#include "Cuda/Target.h"
#include "Link.h"
#include "Program.h"
#include "dialects/ps/Refusal.h"
#include "lib/Support/Files.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::support;
using namespace parashard::codegen;
using namespace parashard::fusion;

namespace {
/// Builds the object to link. GPU kernels are separate modules, embedded in the object as bytes.
class ProgramEmitter {
public:
  ProgramEmitter(MLIRContext *context, const CodegenOptions &options) : options(options) {
    Location loc = UnknownLoc::get(context);
    object = ModuleOp::create(loc);
  }

  llvm::Error chooseTarget();
  /// Adds a module's program table and kernels to the object. The names of their symbols begin with
  /// `prefix`. The runtime looks up these symbols.
  LogicalResult add(ModuleOp module, StringRef prefix, StringRef kernelPrefix);
  LogicalResult link();

private:
  /// Embeds GPU kernels as bytes in the object.
  LogicalResult addImage(ModuleOp device, StringRef prefix);
  /// Records the folder in which an executable looks for libpsrt_comm_mpi.so.
  void nameRuntimeFolder();
  KernelFactory getKernelFactory() const;
  /// Prints the libraries that a portable program bundles, and the requirements of the program on
  /// other machines.
  void remarkNeeds(const ProgramLibraries &libraries);
  LogicalResult report(llvm::Error error) {
    if (!error)
      return success();
    return ps::reportError(*object, std::move(error));
  }

  const CodegenOptions &options;
  std::optional<CpuTarget> cpu; ///< target of the object
  std::optional<CudaTarget> cuda;
  OwningOpRef<ModuleOp> object;
  Payload payload;
};
} // namespace

llvm::Error ProgramEmitter::chooseTarget() {
  auto [kind, name] = StringRef(options.target).split(':');
  auto host = CpuTarget::create(kind == "cpu" && !name.empty() ? name : "native");
  if (!host)
    return host.takeError();
  cpu = std::move(*host);
  if (kind != "cuda")
    return llvm::Error::success();
  auto gpu = CudaTarget::create(name);
  if (!gpu)
    return gpu.takeError();
  cuda = std::move(*gpu);
  return llvm::Error::success();
}

KernelFactory ProgramEmitter::getKernelFactory() const {
  if (cuda)
    return [replays = cuda->replays()](auto op, auto &piece, auto &space, auto &context,
                                       auto module, auto name) {
      return std::make_unique<CudaKernel>(op, piece, space, context, module, name, replays);
    };
  return [width = cpu->getLanes()](auto op, auto &piece, auto &space, auto &context, auto module,
                                   auto name) {
    return std::make_unique<CpuKernel>(op, piece, space, context, module, name, width);
  };
}

LogicalResult ProgramEmitter::add(ModuleOp module, StringRef prefix, StringRef kernelPrefix) {
  OwningOpRef<ModuleOp> device = ModuleOp::create(object->getLoc());
  KernelSet kernels(cuda ? *device : *object, kernelPrefix, getKernelFactory());
  std::string text;
  llvm::raw_string_ostream os(text);
  os.SetBufferSize(1 << 16); // unbuffered by default, but JSON is written in small pieces
  if (failed(ProgramTable(module, kernels).write(options, payload, os)))
    return failure();
  os.flush();
  addBytes(*object, (prefix + "program_json").str(), text, /*withSize=*/true);
  addKernelTable(*object, (prefix + "program_kernels").str(), kernels.getNames(),
                 /*hasNullAddresses=*/bool(cuda));
  return cuda ? addImage(*device, prefix) : success();
}

LogicalResult ProgramEmitter::addImage(ModuleOp device, StringRef prefix) {
  FailureOr<std::string> image = cuda->makeImage(device);
  if (failed(image))
    return failure();
  if (!options.dumpDir.empty()) {
    llvm::SmallString<128> path(options.dumpDir);
    StringRef name = prefix.contains("check") ? "6-native-check" : "6-native";
    llvm::sys::path::append(path, name + (cuda->replays() ? ".so" : ".ptx"));
    if (llvm::Error error = writeAtomically(path, [&](llvm::raw_ostream &os) { os << *image; }))
      return report(std::move(error));
  }
  image->push_back('\0'); // the CUDA driver reads PTX text up to a zero byte
  addBytes(*object, (prefix + "program_image").str(), *image, /*withSize=*/true);
  return success();
}

void ProgramEmitter::nameRuntimeFolder() {
  auto folder = findRuntimeFolder();
  if (StringRef(options.output).ends_with(".so") || !folder)
    return llvm::consumeError(folder.takeError()); // linking reports the error
  folder->push_back('\0');
  addBytes(*object, "psrt_runtime_folder", *folder, /*withSize=*/false);
}

void ProgramEmitter::remarkNeeds(const ProgramLibraries &libraries) {
  std::vector<std::string> bundled;
  for (StringRef path : libraries.bundled)
    bundled.push_back(llvm::sys::path::filename(path).str());
  InFlightDiagnostic remark = object->emitRemark();
  remark << "keep the folder " << getLibraryFolderName(options.output)
         << " beside the program; it contains the libraries " << llvm::join(bundled, ", ");
  remark.attachNote() << "a machine that runs the program needs a CPU with the instructions of "
                      << cpu->getName() << ", and the libraries "
                      << llvm::join(libraries.needed, ", ");
}

LogicalResult ProgramEmitter::link() {
  llvm::Expected<PrivateFolder> folder = PrivateFolder::create();
  if (!folder)
    return report(folder.takeError());
  if (!options.isPortable)
    nameRuntimeFolder();
  std::string archive = folder->name("program.a");
  if (failed(cpu->writeObjects(*object, archive)))
    return failure();
  auto libraries = linkProgram(archive, options.output, payload, {bool(cuda), options.isPortable});
  if (!libraries)
    return report(libraries.takeError());
  if (options.isPortable)
    remarkNeeds(*libraries);
  return success();
}

LogicalResult codegen::emitProgram(ModuleOp module, ModuleOp oneRank,
                                   const CodegenOptions &options) {
  MLIRContext *context = module.getContext();
  context->loadDialect<LLVM::LLVMDialect, scf::SCFDialect, arith::ArithDialect, math::MathDialect,
                       vector::VectorDialect>();
  ProgramEmitter emitter(context, options);
  if (llvm::Error error = emitter.chooseTarget())
    return ps::reportError(UnknownLoc::get(context), std::move(error));
  if (failed(emitter.add(module, "psrt_", "k")) ||
      (oneRank && failed(emitter.add(oneRank, "psrt_check_", "check_k"))))
    return failure();
  return emitter.link();
}
