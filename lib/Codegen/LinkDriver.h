// Finds the command that links programs: a C++ compiler, a C compiler or a linker.
#ifndef PARASHARD_LIB_CODEGEN_LINKDRIVER_H
#define PARASHARD_LIB_CODEGEN_LINKDRIVER_H

#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::codegen {

/// Builds the command line of a link. A C++ compiler adds start files, libstdc++ and libc itself. A
/// C compiler adds start files and libc, but not libstdc++. A linker adds none of the three.
class LinkDriver {
public:
  /// Finds the command that links executables. Uses $PARASHARD_LINKER if it is set. Else uses the
  /// first program on the path among clang++-22, clang++, c++, g++, cc, gcc, clang-22 and clang.
  /// Else uses the lld in the folder `runtime`.
  static llvm::Expected<LinkDriver> find(llvm::StringRef runtime);
  /// Returns the lld in the folder `runtime`, which links libraries.
  static LinkDriver makeLld(llvm::StringRef runtime);

  /// Adds a file, or a flag that compilers and linkers spell alike (-shared, -lm, -o).
  void add(std::string argument) { arguments.push_back(std::move(argument)); }
  /// Adds a flag of the linker: ("-u", "main") becomes -Xlinker -u -Xlinker main for a compiler.
  void addForLinker(std::initializer_list<std::string> flags);
  /// Adds start files if the command is a linker. Call this before adding the objects of an
  /// executable. Fails if the machine has no start files.
  llvm::Error beginExecutable();
  /// Adds the C++ and C libraries. Call this after adding the objects of an executable.
  void endExecutable();
  /// Makes a compiler use the lld in the folder `runtime`.
  void useLld(llvm::StringRef runtime);

  const std::vector<std::string> &getArguments() const { return arguments; }

private:
  enum class Kind { CxxCompiler, CCompiler, Linker };
  LinkDriver(std::string path, Kind kind) : kind(kind), arguments{std::move(path)} {}
  static Kind guessKind(llvm::StringRef path);

  Kind kind;
  std::string startFolder; ///< folder of the C library's start files; only for a linker
  std::vector<std::string> arguments;
};

} // namespace parashard::codegen

#endif
