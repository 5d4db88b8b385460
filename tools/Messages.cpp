// Prints messages as text or as JSON.
#include "tools/Messages.h"
#include "shared/PrintableText.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace parashard {

static bool isJson = false; // whether this process prints JSON

static constexpr const char *kNames[] = {"error", "warning", "remark", "note", "progress"};

void chooseMessageFormat(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    auto [flag, value] = llvm::StringRef(argv[i]).split('=');
    if (flag.starts_with("-") && flag.ltrim('-') == "messages")
      isJson = (value.empty() && i + 1 < argc ? llvm::StringRef(argv[i + 1]) : value) == "json";
  }
}

static llvm::json::Object describe(const Message &message) {
  llvm::json::Object object{{"severity", kNames[unsigned(message.severity)]},
                            {"text", llvm::json::fixUTF8(message.text)}};
  auto add = [&](llvm::StringRef key, const std::string &value) {
    if (!value.empty())
      object[key] = llvm::json::fixUTF8(value);
  };
  add("file", message.file);
  if (message.line > 0)
    object["line"] = message.line;
  if (message.column > 0)
    object["column"] = message.column;
  add("module", message.module);
  add("reproducer", message.reproducer);
  if (!message.notes.empty()) {
    llvm::json::Array notes;
    for (const Message &note : message.notes)
      notes.push_back(describe(note));
    object["notes"] = std::move(notes);
  }
  return object;
}

static void printText(const Message &message) {
  if (!message.location.empty())
    llvm::errs() << message.location << ": ";
  if (message.severity != Severity::Progress)
    llvm::errs() << kNames[unsigned(message.severity)] << ": ";
  llvm::errs() << escapeControls(message.text, "\n  ") << "\n";
  for (const Message &note : message.notes)
    printText(note);
}

void printMessage(const Message &message) {
  if (isJson)
    llvm::errs() << llvm::json::Value(describe(message)) << "\n";
  else
    printText(message);
}

void printMessage(Severity severity, const llvm::Twine &text) {
  Message message;
  message.severity = severity;
  message.text = text.str();
  printMessage(message);
}

void printReport(bool isWarning, const std::string &text) {
  printMessage(isWarning ? Severity::Warning : Severity::Note, text);
}

void printToolError(llvm::StringRef tool, const llvm::Twine &text) {
  Message message;
  message.text = text.str();
  message.location = tool.str();
  printMessage(message);
}

} // namespace parashard
