// Declares the command-line helpers that all tools share: parsing, exit status, file checks.
#ifndef PARASHARD_TOOLS_COMMANDLINE_H
#define PARASHARD_TOOLS_COMMANDLINE_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace parashard {

/// The exit statuses of the tools (docs/errors.md). `Failed` covers errors about the model and
/// failures of the compiler.
enum ExitStatus { Done = 0, Failed = 1, BadCommandLine = 2 };

/// Makes failed writes and fatal LLVM errors ordinary errors. Each tool calls this function first.
/// A file beyond a size limit (`ulimit -f`) then makes the write fail, without a signal. A fatal
/// LLVM error, such as a full standard output (`> /dev/full`), gives a message and the status
/// `Failed`.
void reportFailedWrites();

/// While an object lives, the first interrupt (SIGINT, Ctrl-C) does not end the program. At most
/// one object may live at a time.
class CaughtInterrupt {
public:
  CaughtInterrupt();
  ~CaughtInterrupt();
  CaughtInterrupt(const CaughtInterrupt &) = delete;
  CaughtInterrupt &operator=(const CaughtInterrupt &) = delete;

  /// Returns true if there was an interrupt since the object was made. The next interrupt ends the
  /// program.
  static bool isInterrupted();
};

/// Makes `--version` print the versions of Parashard and LLVM.
void setVersion();

/// Hides the options that are registered so far, except `--help` and `--version`. Tools call this
/// function while only the options of LLVM's libraries are registered. `--help` omits hidden
/// options. Hidden options still work, and `--help-hidden` shows them.
void hideLibraryOptions();

/// Returns true if the switch `--NAME` is among the arguments, which need not be parsed yet.
bool hasFlag(int argc, char **argv, llvm::StringRef name);

/// Parses the command line of a tool into its `llvm::cl` options. Prints an error to stderr and
/// returns false if an argument is empty (such as an unset shell variable) or is not UTF-8. Does
/// the same if a flag is unknown, lacks its value, or is given twice although it takes one value.
bool parseTool(int argc, char **argv, llvm::StringRef overview);

/// Records the exit status for the errors of a context: BadCommandLine after an error about a flag,
/// otherwise Failed. Other handlers print the errors.
class FaultRecorder : public mlir::ScopedDiagnosticHandler {
public:
  explicit FaultRecorder(mlir::MLIRContext &context);
  ExitStatus getStatus() const { return status; }

private:
  ExitStatus status = Failed;
};

/// Fails unless `path` is an existing file with one of the `endings`. An empty list accepts any
/// ending.
llvm::Error checkModelFile(llvm::StringRef path, llvm::ArrayRef<llvm::StringRef> endings = {});

/// Fails unless `path`, which `flag` names, is a file that can be read. `flag` has no dashes.
llvm::Error checkReadable(llvm::StringRef flag, llvm::StringRef path);

/// Returns the file that `output` names, after following symbolic links, so that a link's target
/// is written. Fails if `output` is a device or pipe, which a regular file must not replace.
llvm::Expected<std::string> findOutputFile(llvm::StringRef output);

/// A file that a tool reads. `use` is the predicate of an error message about the file. Example:
/// the use "is read by --plan" gives "output 'p.json' is read by --plan; give another name".
struct InputFile {
  std::string path, use;
};

/// Fails if `output` cannot be written or is one of the `inputs`. Tools check this before hours of
/// work. Inputs with an empty path are skipped. `flag` is the flag that names `output`, without
/// dashes.
llvm::Error checkOutputFile(llvm::ArrayRef<InputFile> inputs, llvm::StringRef output,
                            llvm::StringRef flag = "o");
/// Does the same for a tool that reads only a model.
llvm::Error checkOutputFile(llvm::StringRef model, llvm::StringRef output,
                            llvm::StringRef flag = "o");

} // namespace parashard

#endif
