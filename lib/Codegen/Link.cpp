// Makes an executable or a shared library of a compiled object.
#include "Link.h"
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

/// The flags for the runtime's libraries in `folder`, and for those of the system.
void addLibraries(std::vector<std::string> &arguments, StringRef folder, bool withCuda) {
  // The runtime refers to devices weakly, which takes nothing out of an archive.
  arguments.push_back(std::string("-Wl,-u,psrt_make_") + (withCuda ? "cuda" : "cpu") + "_device");
  StringRef other = withCuda ? "device_cpu" : "cuda";
  for (StringRef archive : kArchives)
    if (!archive.contains(other))
      arguments.push_back((folder + "/lib" + archive + ".a").str());
  if (!withCuda) {
    arguments.push_back(hasFile(kDnnlLibrary) ? kDnnlLibrary : "-ldnnl");
    if (StringRef(kDnnlFolder).size())
      arguments.push_back(std::string("-Wl,-rpath,") + kDnnlFolder);
  }
  for (const char *library : {"-lpthread", "-ldl", "-lm"})
    arguments.push_back(library);
}

llvm::Expected<std::string> findDriver() {
  std::vector<std::string> candidates = {"clang++-22", "clang++", "c++", "g++"};
  if (auto chosen = llvm::sys::Process::GetEnv("PARASHARD_LINKER"))
    candidates = {*chosen};
  for (const std::string &candidate : candidates)
    if (auto path = llvm::sys::findProgramByName(candidate))
      return *path;
  return llvm::createStringError(
      "no C++ compiler to link with (looked for " + candidates.front() +
      " and others on PATH); install clang or g++, or set PARASHARD_LINKER");
}

/// Makes the driver use the linker that CMake found. Clang takes its path, GCC only its name: both
/// look for that in the folders of -B first.
llvm::Error addLinker(std::vector<std::string> &arguments, PrivateFolder &folder) {
  if (!hasFile(kLinkerName))
    return llvm::Error::success();
  std::string link = folder.name("ld.lld");
  if (std::error_code code = llvm::sys::fs::create_link(kLinkerName, link))
    return llvm::createStringError(code, "cannot make a link in the temporary folder '%s': %s",
                                   folder.getPath().str().c_str(), code.message().c_str());
  arguments.insert(arguments.end(), {"-fuse-ld=lld", "-B", folder.getPath().str()});
  return llvm::Error::success();
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

/// Linkers map their output: on a full disk they die of a bus error, of which they say much.
llvm::Error explainFullDisk(llvm::Error error, StringRef output) {
  constexpr uint64_t kLittle = 16 << 20;
  StringRef folder = llvm::sys::path::parent_path(output);
  auto space = llvm::sys::fs::disk_space(folder.empty() ? "." : folder);
  if (!space || space->available >= kLittle)
    return error;
  std::string said = llvm::toString(std::move(error));
  bool isCrash = StringRef(said).contains("Stack dump") || StringRef(said).contains("bug report");
  return llvm::createStringError((isCrash ? "linking failed" : said) + ": the disk of '" +
                                 (folder.empty() ? "." : folder) + "' has " +
                                 llvm::Twine(space->available >> 10) + " kB left");
}

/// Copies what the linker made to its place, and appends the payload.
llvm::Error copyProgram(StringRef linked, StringRef output, const Payload &payload) {
  constexpr unsigned kExecutable = 0777;
  auto bytes = llvm::MemoryBuffer::getFile(linked, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!bytes)
    return llvm::createStringError(bytes.getError(), "cannot read what the linker wrote");
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

llvm::Error linkProgram(StringRef object, StringRef output, const Payload &payload, bool withCuda) {
  auto driver = findDriver();
  if (!driver)
    return driver.takeError();
  std::vector<std::string> arguments = {*driver, object.str()};
  auto folder = findRuntimeFolder();
  if (!folder)
    return folder.takeError();
  if (output.ends_with(".so")) {
    arguments.insert(arguments.end(), {"-shared", "-nostdlib"});
  } else {
    addLibraries(arguments, *folder, withCuda);
  }
  arguments.push_back(*folder + "/libpsrt_builtins.a");
  // The linker opens its output by name. In a private folder no other user can put a link there.
  llvm::Expected<PrivateFolder> scratch = PrivateFolder::create();
  if (!scratch)
    return scratch.takeError();
  if (llvm::Error error = addLinker(arguments, *scratch))
    return error;
  std::string linked = scratch->name("program");
  arguments.insert(arguments.end(), {"-o", linked});
  if (llvm::Error error = run(arguments, scratch->name("log.txt")))
    return explainFullDisk(std::move(error), linked);
  return copyProgram(linked, output, payload);
}

} // namespace parashard::codegen
