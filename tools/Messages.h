// Prints the messages of a tool on stderr, as text or as JSON.
#ifndef PARASHARD_TOOLS_MESSAGES_H
#define PARASHARD_TOOLS_MESSAGES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <cstdint>
#include <string>
#include <vector>

namespace parashard {

enum class Severity { Error, Warning, Remark, Note, Progress };

/// A message to the user. Strings are empty, and numbers are 0, if they are not known.
struct Message {
  Severity severity = Severity::Error;
  std::string text;
  std::string location;   ///< begins the line in text, such as "h.0.attn (model.py:12)"
  std::string file;       ///< of the model
  int64_t line = 0;       ///< from 1
  int64_t column = 0;     ///< from 1
  std::string module;     ///< path of the model's module, such as "h.0.attn"
  std::string reproducer; ///< the ps-opt command that repeats a failure
  std::vector<Message> notes = {};
};

/// Chooses JSON if the arguments contain `--messages json`. Tools with this flag call the function
/// first, so that errors in the command line are JSON, too.
void chooseMessageFormat(int argc, char **argv);

/// Prints a message: as lines of text, or as one JSON object on one line (docs/errors.md).
void printMessage(const Message &message);
void printMessage(Severity severity, const llvm::Twine &text);
/// Prints a note or a warning.
void printReport(bool isWarning, const std::string &text);
/// Prints an error with the name of the tool. Example: "ps-compile: error: no model given".
void printToolError(llvm::StringRef tool, const llvm::Twine &text);

} // namespace parashard

#endif
