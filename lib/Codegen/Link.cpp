// Links a compiled object into an executable or a shared library.
#include "Link.h"
#include "LinkDriver.h"
#include "lib/Codegen/RuntimePaths.h"
#include "lib/Support/Files.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include <string>
#include <vector>

using namespace parashard::support;

using llvm::StringRef;

namespace parashard::codegen {
namespace {

/// The runtime's archives in link order (docs/program-format.md, "Linking").
constexpr const char *kArchives[] = {"psrt_main",         "psrt",
                                     "psrt_data",         "psrt_comm_process",
                                     "psrt_bootstrap",    "psrt_comm_local",
                                     "psrt_device_cpu",   "psrt_device_cuda",
                                     "psrt_cuda_kernels", "psrt_core"};

bool hasFile(StringRef path) { return !path.empty() && llvm::sys::fs::exists(path); }

/// The oneDNN library. Programs look for it in `folder`; empty: in the system's default folders.
struct Dnnl {
  std::string file;
  std::string folder;
};

/// Finds oneDNN in the folder of the runtime, as in the Python package, or where the build found
/// it.
Dnnl findDnnl(StringRef folder) {
  std::string bundled = (folder + "/" + kDnnlName).str();
  if (hasFile(bundled))
    return {bundled, folder.str()};
  return {hasFile(kDnnlLibrary) ? kDnnlLibrary : std::string("-l:") + kDnnlName, kDnnlFolder};
}

/// Adds the runtime's libraries in `folder`, and oneDNN for a CPU program.
void addLibraries(LinkDriver &driver, StringRef folder, const LinkOptions &options) {
  // The runtime's references to devices are weak, and a weak reference does not pull a member out
  // of an archive.
  driver.addForLinker({"-u", options.withCuda ? "psrt_make_cuda_device" : "psrt_make_cpu_device"});
  StringRef other = options.withCuda ? "device_cpu" : "cuda";
  for (StringRef archive : kArchives)
    if (!archive.contains(other))
      driver.add((folder + "/lib" + archive + ".a").str());
  if (options.withCuda)
    return;
  Dnnl dnnl = findDnnl(folder);
  driver.add(dnnl.file);
  // DT_RPATH also applies to the libraries that oneDNN needs.
  if (!dnnl.folder.empty() && !options.isPortable)
    driver.addForLinker({"--disable-new-dtags", "-rpath", dnnl.folder});
}

std::string firstLines(StringRef text) {
  return text.take_front(text.size() < 2000 ? text.size() : 2000).rtrim().str();
}

llvm::Error run(const std::vector<std::string> &arguments, StringRef log) {
  llvm::SmallVector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), log, log};
  std::string message;
  int status =
      llvm::sys::ExecuteAndWait(arguments.front(), views, std::nullopt, redirects, 0, 0, &message);
  if (status == 0)
    return llvm::Error::success();
  auto output = llvm::MemoryBuffer::getFile(log);
  std::string text = output ? firstLines((*output)->getBuffer()) : "";
  return llvm::createStringError("linking failed: " + (text.empty() ? message : text));
}

/// Adds the free space to the error if the disk is full. A linker maps its output into memory, so
/// on a full disk the linker crashes with a bus error and a long dump.
llvm::Error explainFullDisk(llvm::Error error, StringRef output) {
  constexpr uint64_t kLittle = 16 << 20;
  StringRef folder = llvm::sys::path::parent_path(output);
  auto space = llvm::sys::fs::disk_space(folder.empty() ? "." : folder);
  if (!space || space->available >= kLittle)
    return error;
  std::string message = llvm::toString(std::move(error));
  bool isCrash =
      StringRef(message).contains("Stack dump") || StringRef(message).contains("bug report");
  return llvm::createStringError((isCrash ? "linking failed" : message) + ": the disk of '" +
                                 (folder.empty() ? "." : folder) + "' has " +
                                 llvm::Twine(space->available >> 10) + " kB left");
}

/// Copies the linked program to its destination, and appends the payload.
llvm::Error copyProgram(StringRef linked, StringRef output, const Payload &payload) {
  constexpr unsigned kExecutable = 0777;
  auto bytes = llvm::MemoryBuffer::getFile(linked, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!bytes)
    return llvm::createStringError(bytes.getError(), "cannot read the linker's output");
  llvm::Error error = writeAtomically(
      output,
      [&](llvm::raw_ostream &os) {
        os << (*bytes)->getBuffer();
        if (!payload.empty())
          payload.write(os, (*bytes)->getBufferSize());
        return llvm::Error::success();
      },
      kExecutable);
  return error ? explainFullDisk(std::move(error), output) : llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> findRuntimeFolder() {
  std::string tool =
      llvm::sys::fs::getMainExecutable(nullptr, reinterpret_cast<void *>(&findRuntimeFolder));
  StringRef prefix = llvm::sys::path::parent_path(llvm::sys::path::parent_path(tool));
  for (const char *folder : {"/lib/parashard", "/lib"})
    if (hasFile((prefix + folder + "/libpsrt_main.a").str()))
      return (prefix + folder).str();
  return llvm::createStringError(
      "cannot find the runtime to link with: libpsrt_main.a is neither in '%s/lib/parashard' nor "
      "in '%s/lib'; install parashard again (cmake --install)",
      prefix.str().c_str(), prefix.str().c_str());
}

/// Returns the library that calls MPI, if it exists. A portable program loads this library only if
/// MPI is used.
static std::vector<std::string> listMpiLibrary(StringRef folder) {
  std::string mpi = (folder + "/libpsrt_comm_mpi.so").str();
  return hasFile(mpi) ? std::vector<std::string>{mpi} : std::vector<std::string>{};
}

/// Adds all objects of an archive, also those that no other object refers to.
static void addObjects(LinkDriver &driver, StringRef archive) {
  driver.addForLinker({"--whole-archive"});
  driver.add(archive.str());
  driver.addForLinker({"--no-whole-archive"});
}

llvm::Expected<ProgramLibraries> linkProgram(StringRef archive, StringRef output,
                                             const Payload &payload, const LinkOptions &options) {
  auto folder = findRuntimeFolder();
  if (!folder)
    return folder.takeError();
  bool isExecutable = !output.ends_with(".so");
  llvm::Expected<LinkDriver> driver =
      isExecutable ? LinkDriver::find(*folder) : LinkDriver::makeLld(*folder);
  if (!driver)
    return driver.takeError();
  if (isExecutable) {
    if (llvm::Error error = driver->beginExecutable())
      return std::move(error);
    addObjects(*driver, archive);
    addLibraries(*driver, *folder, options);
  } else {
    driver->add("-shared");
    addObjects(*driver, archive);
  }
  driver->add(*folder + "/libpsrt_builtins.a");
  if (isExecutable)
    driver->endExecutable();
  // DT_RPATH (--disable-new-dtags) also applies to the dependencies of libraries; DT_RUNPATH does
  // not.
  if (options.isPortable)
    driver->addForLinker(
        {"--disable-new-dtags", "-rpath", "$ORIGIN/" + getLibraryFolderName(output)});
  // The linker opens its output by name. In a private folder, no other user can place a symbolic
  // link under that name.
  llvm::Expected<PrivateFolder> scratch = PrivateFolder::create();
  if (!scratch)
    return scratch.takeError();
  driver->useLld(*folder);
  std::string linked = scratch->name("program");
  driver->add("-o");
  driver->add(linked);
  if (llvm::Error error = run(driver->getArguments(), scratch->name("log.txt")))
    return explainFullDisk(std::move(error), linked);
  ProgramLibraries libraries;
  if (options.isPortable) {
    llvm::Expected<ProgramLibraries> found =
        findLibraries(linked, listMpiLibrary(*folder), findDnnl(*folder).folder, *scratch);
    if (!found)
      return found.takeError();
    libraries = std::move(*found);
    if (llvm::Error error = bundleLibraries(libraries.bundled, output))
      return explainFullDisk(std::move(error), output);
  }
  if (llvm::Error error = copyProgram(linked, output, payload))
    return std::move(error);
  return libraries;
}

} // namespace parashard::codegen
