// From a placed module to a program: the table, the kernels, the object, the link.
#include "Cpu/Target.h"
#include "Link.h"
#include "Program.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

/// The symbols that the runtime looks for, after `prefix`.
static LogicalResult addProgram(ModuleOp object, ModuleOp module, StringRef prefix,
                                StringRef kernelPrefix, unsigned lanes,
                                const CodegenOptions &options, Payload &payload) {
  KernelSet kernels(object, kernelPrefix, lanes);
  std::string text;
  llvm::raw_string_ostream os(text);
  os.SetBufferSize(1 << 16); // it has none by itself, and JSON comes a character at a time
  if (failed(ProgramTable(module, kernels).write(options, payload, os)))
    return failure();
  os.flush();
  addBytes(object, (prefix + "program_json").str(), text, /*withSize=*/true);
  addKernelTable(object, (prefix + "program_kernels").str(), kernels.getNames());
  return success();
}

static LogicalResult report(ModuleOp module, llvm::Error error) {
  if (!error)
    return success();
  return emitError(UnknownLoc::get(module.getContext())) << llvm::toString(std::move(error));
}

LogicalResult parashard::emitProgram(ModuleOp module, ModuleOp oneRank,
                                     const CodegenOptions &options) {
  auto target = CpuTarget::create(options.cpu);
  if (!target)
    return report(module, target.takeError());
  module.getContext()
      ->loadDialect<LLVM::LLVMDialect, scf::SCFDialect, arith::ArithDialect, math::MathDialect,
                    vector::VectorDialect>();
  OwningOpRef<ModuleOp> object = ModuleOp::create(UnknownLoc::get(module.getContext()));
  Payload payload;
  if (failed(addProgram(*object, module, "psrt_", "k", target->getLanes(), options, payload)))
    return failure();
  if (oneRank && failed(addProgram(*object, oneRank, "psrt_check_", "check_k", target->getLanes(),
                                   options, payload)))
    return failure();
  llvm::SmallString<128> path;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("parashard", "o", path))
    return report(module, llvm::createStringError(code, "cannot make a temporary file: %s",
                                                  code.message().c_str()));
  llvm::sys::RemoveFileOnSignal(path);
  LogicalResult result = target->writeObject(*object, path);
  if (succeeded(result))
    result = report(module, linkProgram(path, options.output, payload));
  llvm::sys::fs::remove(path);
  llvm::sys::DontRemoveFileOnSignal(path);
  return result;
}
