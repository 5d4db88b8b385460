// Finds and copies the libraries of a program that has to run on other machines.
#ifndef PARASHARD_LIB_CODEGEN_PORTABLE_H
#define PARASHARD_LIB_CODEGEN_PORTABLE_H

#include "lib/Support/Files.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::codegen {

/// Returns the name of the folder with a program's libraries. The folder is beside the program.
/// Example: "gpt.libs" for "out/gpt".
std::string getLibraryFolderName(llvm::StringRef program);

/// The libraries of a portable program. Some are copied beside the program (`bundled`), the others
/// must exist on every machine (`needed`).
struct ProgramLibraries {
  std::vector<std::string> bundled; ///< paths: oneDNN, its dependencies, MPI support
  /// Libraries that every machine must have, with the newest version that is used. Example:
  /// "libc.so.6 (GLIBC_2.36)".
  std::vector<std::string> needed;
};

/// Asks the dynamic loader which libraries the executable `linked` would load, without running its
/// code. `further` are libraries that the executable may load later. `folder` is a folder in which
/// to look for libraries first, or empty.
llvm::Expected<ProgramLibraries> findLibraries(llvm::StringRef linked,
                                               llvm::ArrayRef<std::string> further,
                                               llvm::StringRef folder,
                                               support::PrivateFolder &scratch);

/// Creates the folder of the libraries of `program`, and copies the files into it.
llvm::Error bundleLibraries(llvm::ArrayRef<std::string> files, llvm::StringRef program);

} // namespace parashard::codegen

#endif
