// Finds the command that links programs: a C++ compiler, a C compiler or a linker.
#include "LinkDriver.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include <link.h>

using llvm::StringRef;

namespace parashard::codegen {

static bool hasFile(StringRef path) { return !path.empty() && llvm::sys::fs::exists(path); }

LinkDriver::Kind LinkDriver::guessKind(StringRef path) {
  StringRef name = llvm::sys::path::filename(path);
  if (name == "ld" || name.starts_with("ld.") || name.starts_with("ld-") || name == "lld")
    return Kind::Linker;
  return name.contains("++") ? Kind::CxxCompiler : Kind::CCompiler;
}

llvm::Expected<LinkDriver> LinkDriver::find(StringRef runtime) {
  if (auto chosen = llvm::sys::Process::GetEnv("PARASHARD_LINKER")) {
    auto path = llvm::sys::findProgramByName(*chosen);
    if (!path || !hasFile(*path))
      return llvm::createStringError("PARASHARD_LINKER: there is no program '" + *chosen +
                                     "'; name a C++ compiler, a C compiler or a linker");
    return LinkDriver(*path, guessKind(*chosen));
  }
  for (const char *candidate :
       {"clang++-22", "clang++", "c++", "g++", "cc", "gcc", "clang-22", "clang"})
    if (auto path = llvm::sys::findProgramByName(candidate); path && hasFile(*path))
      return LinkDriver(*path, guessKind(candidate));
  return makeLld(runtime);
}

LinkDriver LinkDriver::makeLld(StringRef runtime) {
  return LinkDriver((runtime + "/ld.lld").str(), Kind::Linker);
}

void LinkDriver::addForLinker(std::initializer_list<std::string> flags) {
  for (const std::string &flag : flags) {
    if (kind != Kind::Linker)
      add("-Xlinker"); // unlike -Wl, accepts names with commas
    add(flag);
  }
}

/// Returns the dynamic loader of this process, such as /lib64/ld-linux-x86-64.so.2. Programs for
/// this machine use the same loader.
static std::string findLoader() {
  std::string loader;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        for (const ElfW(Phdr) &header : llvm::ArrayRef(info->dlpi_phdr, info->dlpi_phnum))
          if (header.p_type == PT_INTERP)
            *static_cast<std::string *>(result) =
                reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr);
        return 1; // the executable comes first
      },
      &loader);
  return loader;
}

llvm::Error LinkDriver::beginExecutable() {
  if (kind != Kind::Linker)
    return llvm::Error::success();
  const char *folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                           "/usr/lib"};
  for (StringRef folder : folders)
    if (startFolder.empty() && hasFile((folder + "/Scrt1.o").str()))
      startFolder = folder.str();
  if (startFolder.empty())
    return llvm::createStringError(
        "nothing to link an executable with: PATH has no C++ compiler and no C compiler (cc), and "
        "a linker alone needs the start files of the C library (Scrt1.o); install one of these "
        "(Debian: gcc or libc6-dev), name a compiler in PARASHARD_LINKER, or write a library "
        "(-o NAME.so)");
  for (const std::string &argument :
       {std::string("-pie"), std::string("--eh-frame-hdr"), std::string("-dynamic-linker"),
        findLoader(), startFolder + "/Scrt1.o", startFolder + "/crti.o", "-L" + startFolder})
    add(argument);
  // Also searches /lib, for libraries without development files.
  add(startFolder.starts_with("/usr/") ? "-L" + startFolder.substr(4) : "-L/lib");
  return llvm::Error::success();
}

void LinkDriver::endExecutable() {
  // Links libstdc++.so.6 by file name, because libstdc++.so exists only where a C++ compiler is
  // installed.
  if (kind != Kind::CxxCompiler)
    add("-l:libstdc++.so.6");
  for (const char *library : {"-lpthread", "-ldl", "-lm"})
    add(library);
  if (kind == Kind::Linker)
    for (const std::string &argument :
         {std::string("-l:libgcc_s.so.1"), std::string("-lc"), startFolder + "/crtn.o"})
      add(argument);
}

/// Passes the folder of lld with -B, because GCC accepts only the name of a linker, not its path.
/// GCC and Clang search the folders of -B first.
void LinkDriver::useLld(StringRef runtime) {
  if (kind == Kind::Linker)
    return;
  for (const std::string &argument :
       {std::string("-fuse-ld=lld"), std::string("-B"), runtime.str()})
    add(argument);
}

} // namespace parashard::codegen
