// What the command lines of the tools have in common: exit status, and checks of files that are
// named.
#ifndef PARASHARD_TOOLS_COMMANDLINE_H
#define PARASHARD_TOOLS_COMMANDLINE_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace parashard {

enum ExitStatus { Done = 0, ModelAtFault = 1, BadCommandLine = 2 };

/// What the tools begin with: a file that grows beyond a limit (`ulimit -f`) is an error of the
/// write, and does not kill the process. So is a standard output that is full (`> /dev/full`).
void reportFailedWrites();

/// What `--version` prints: the versions of Parashard and of LLVM.
void setVersion();

/// Parses the command line of a tool, whose options are `llvm::cl`'s. False after a message on
/// stderr: an unknown flag, or one whose value is missing or empty (an unset variable of a script).
bool parseTool(int argc, char **argv, llvm::StringRef overview);

/// Who is at fault by an error's message: the command line when it begins with a flag
/// ("--freeze no.such: ..."), whoever finds it out; else the model.
ExitStatus getFault(llvm::StringRef message);

/// Remembers who is at fault by the errors of a context, and leaves printing them to others.
class FaultRecorder : public mlir::ScopedDiagnosticHandler {
public:
  explicit FaultRecorder(mlir::MLIRContext &context);
  ExitStatus getFault() const { return fault; }

private:
  ExitStatus fault = ModelAtFault;
};

/// Whether `path` is a file that is there and has one of the `endings` (none: any).
llvm::Error checkModelFile(llvm::StringRef path, llvm::ArrayRef<llvm::StringRef> endings = {});

/// The file that `output` stands for: links are followed, so that they are written through. An
/// error when it is there and neither a regular file nor a folder: nothing takes a device's place.
llvm::Expected<std::string> findOutputFile(llvm::StringRef output);

/// Before hours of work: whether `output` can be made, and replaces nothing that is read.
/// `flag` is the one that named it.
llvm::Error checkOutputFile(llvm::StringRef input, llvm::StringRef output,
                            llvm::StringRef flag = "-o");

} // namespace parashard

#endif
