// Implements the command-line helpers that all tools share: parsing, exit status, file checks.
#include "CommandLine.h"

#include "dialects/ps/Refusal.h"
#include "parashard/Version.h"
#include "shared/FileClaims.h"
#include "shared/NearestNames.h"
#include "shared/RunFlags.h"
#include "shared/WrapText.h"
#include "tools/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <unistd.h>

using namespace llvm;

namespace parashard {

static Error fail(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

/// Ends the tool on a fatal LLVM error, such as a stream that is closed after a failed write.
static void endWithError(void *, const char *reason, bool) {
  StringRef text = reason;
  bool isWrite = text.consume_front("IO failure on output stream");
  printMessage(Severity::Error, (isWrite ? "the standard output cannot be written" : "") + text);
  _exit(Failed);
}

void reportFailedWrites() {
  std::signal(SIGXFSZ, SIG_IGN);
  install_fatal_error_handler(endWithError);
}

static volatile std::sig_atomic_t interrupts = 0;

CaughtInterrupt::CaughtInterrupt() {
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupts = 1; };
  action.sa_flags = SA_RESETHAND | SA_RESTART; // the next interrupt has its usual effect
  sigaction(SIGINT, &action, nullptr);
}

CaughtInterrupt::~CaughtInterrupt() { std::signal(SIGINT, SIG_DFL); }

bool CaughtInterrupt::isInterrupted() { return interrupts != 0; }

void setVersion() {
  cl::SetVersionPrinter([](raw_ostream &os) {
    os << "Parashard " << describeVersion() << ", LLVM " LLVM_VERSION_STRING "\n";
  });
}

void hideLibraryOptions() {
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (name != "help" && name != "version")
      option->setHiddenFlag(cl::Hidden);
}

/// Returns true if an argument is UTF-8, as JSON requires. If not, prints an error.
static bool checkText(StringRef tool, StringRef argument) {
  if (json::isUTF8(argument))
    return true;
  std::string escaped;
  raw_string_ostream os(escaped);
  printEscapedString(argument, os);
  printToolError(tool, "the argument \"" + escaped +
                           "\" is not UTF-8; give the file or tensor a name in UTF-8");
  return false;
}

/// Returns true if every single-value flag occurs at most once. If not, prints an error, since
/// `llvm::cl` would ignore all values except the last.
static bool checkOccurrences(StringRef tool) {
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrencesFlag() == cl::Optional && option->getNumOccurrences() > 1) {
      printToolError(tool, ps::spellFlag(name) + " is given " + Twine(option->getNumOccurrences()) +
                               " times; give it once");
      return false;
    }
  return true;
}

/// Removes leading zeros of a number, because `llvm::cl` would read "010" as octal 8. Example:
/// "010" gives "10".
static std::string removeZeros(StringRef text) {
  bool isNumber = !text.empty() && llvm::all_of(text, isDigit);
  return isNumber ? text.drop_back().ltrim('0').str() + text.back() : text.str();
}

/// Returns the arguments, without leading zeros in the values of numeric flags. A flag is numeric
/// if `--help` shows its value as N.
static std::vector<std::string> readDecimals(int argc, char **argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    auto [flag, value] = StringRef(argv[i]).split('=');
    cl::Option *option = cl::getRegisteredOptions().lookup(flag.ltrim('-'));
    if (!flag.starts_with("-") || !option || option->ValueStr != "N")
      continue;
    if (!value.empty())
      arguments[i] = (flag + "=" + removeZeros(value)).str();
    else if (i + 1 < argc)
      arguments[i + 1] = removeZeros(argv[i + 1]), ++i;
  }
  return arguments;
}

/// Joins each flag with a value that begins with "@". `llvm::cl` would replace an argument "@FILE"
/// by the content of the file. Example: "--optimizer", "@g.json" gives "--optimizer=@g.json".
static std::vector<std::string> joinFiles(std::vector<std::string> arguments) {
  std::vector<std::string> joined;
  for (std::string &argument : arguments) {
    StringRef flag = joined.empty() ? "" : StringRef(joined.back());
    cl::Option *option = cl::getRegisteredOptions().lookup(flag.ltrim('-'));
    if (StringRef(argument).starts_with("@") && flag.starts_with("-") && option &&
        option->getValueExpectedFlag() == cl::ValueRequired)
      joined.back() += "=" + argument;
    else
      joined.push_back(std::move(argument));
  }
  return joined;
}

/// Prints an error for an unknown flag: where the flag belongs, or the flag that was meant.
static void refuseFlag(StringRef tool, StringRef spelling) {
  StringRef name = spelling.ltrim('-');
  std::vector<std::string> known;
  for (auto &[registered, option] : cl::getRegisteredOptions())
    if (option->getOptionHiddenFlag() == cl::NotHidden)
      known.push_back(registered.str());
  llvm::sort(known);
  std::string suggestion = suggestFlag(name, known);
  if (suggestion.empty() && isRunFlag(name))
    suggestion = "; " + spelling.str() + " is a flag of the compiled program";
  printToolError(tool, "unknown flag " + spelling + suggestion + " (--help lists the flags)");
}

/// Returns the number of arguments without a flag that the tool takes.
static size_t countPositionals() {
  size_t count = 0;
  for (cl::Option *option : cl::SubCommand::getTopLevel().PositionalOpts)
    count += option->getNumOccurrencesFlag() == cl::Optional ? 1 : SIZE_MAX / 2;
  return count;
}

/// Returns true if every flag is known and no argument is left over. If not, prints an error for
/// each unknown flag and for the first such argument. `llvm::cl` would also report the value of an
/// unknown flag, as a positional argument.
static bool checkFlags(StringRef tool, ArrayRef<std::string> arguments) {
  bool areKnown = true;
  size_t free = countPositionals();
  for (size_t i = 1; i < arguments.size(); ++i) {
    auto [spelling, value] = StringRef(arguments[i]).split('=');
    if (!spelling.starts_with("-")) {
      if (free-- > 0 || !areKnown)
        continue;
      printToolError(tool, "unexpected argument '" + arguments[i] +
                               "'; give it as the value of a flag (--help lists the flags)");
      return false;
    }
    if (spelling.ltrim('-').empty() && spelling.size() > 1) // two dashes: no flags follow
      break;
    if (spelling.size() == 1) // the standard output
      continue;
    cl::Option *option = cl::getRegisteredOptions().lookup(spelling.ltrim('-'));
    if (!option) {
      refuseFlag(tool, spelling);
      areKnown = false;
    } else if (option->getValueExpectedFlag() == cl::ValueRequired &&
               spelling.size() == arguments[i].size()) {
      ++i; // the next argument is the flag's value
    }
  }
  return areKnown;
}

bool hasFlag(int argc, char **argv, llvm::StringRef name) {
  return llvm::any_of(llvm::ArrayRef(argv, size_t(argc)), [&](llvm::StringRef argument) {
    return argument.starts_with("-") && argument.ltrim("-") == name;
  });
}

/// Rewrites an error of `llvm::cl` for a bad value in the words of the other tools. Example:
/// "for the --batch option: 'x' value invalid for long argument!" gives `--batch must be a whole
/// number, not "x"`.
static std::string rewordError(StringRef line) {
  SmallVector<StringRef> parts;
  if (Regex("^for the (-+[^ ]+) option: '(.*)' value invalid for (.*) argument!$")
          .match(line, &parts))
    return (parts[1] + " must be a " + (parts[3] == "floating point" ? "" : "whole ") +
            "number, not \"" + parts[2] + "\"")
        .str();
  if (Regex("^for the (-+[^ ]+) option: requires a value!$").match(line, &parts))
    return (parts[1] + " needs a value").str();
  return line.str();
}

/// Parses the arguments with `llvm::cl`, which writes one line per error.
static bool parseOptions(StringRef tool, ArrayRef<const char *> arguments, StringRef overview) {
  std::string text;
  raw_string_ostream os(text);
  if (cl::ParseCommandLineOptions(int(arguments.size()), arguments.data(), overview, &os))
    return true;
  for (StringRef line : split(StringRef(text).rtrim(), '\n')) {
    line.consume_front((tool + ": ").str());
    if (!line.trim().empty())
      printToolError(tool, rewordError(line));
  }
  return false;
}

/// Wraps the texts of `--help`, which `llvm::cl` would print in one line per option.
static void wrapHelp() {
  constexpr size_t kColumns = 100, kFewest = 50;
  constexpr size_t kDash = 3;           // columns of " - ", which `llvm::cl` prints before the text
  static std::deque<std::string> texts; // options refer to their texts
  size_t width = 0;
  auto isShown = [](const cl::Option &option) {
    return option.getOptionHiddenFlag() == cl::NotHidden && option.hasArgStr();
  };
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (isShown(*option))
      width = std::max(width, option->getOptionWidth());
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (isShown(*option) && !option->HelpStr.contains('\n')) {
      size_t columns = std::max(kFewest, kColumns - std::min(kColumns, width + kDash));
      option->setDescription(texts.emplace_back(wrapText(option->HelpStr, columns)));
    }
}

bool parseTool(int argc, char **argv, StringRef overview) {
  StringRef tool = sys::path::filename(argv[0]);
  for (int i = 1; i < argc; ++i) {
    StringRef argument = argv[i], before = argv[i - 1];
    if (!checkText(tool, argument))
      return false;
    bool isEmpty = argument.starts_with("-") && argument.ends_with("=");
    StringRef flag = isEmpty                            ? argument.drop_back()
                     : i > 1 && before.starts_with("-") ? before
                                                        : "";
    if (!isEmpty && !argument.empty())
      continue;
    printToolError(tool,
                   (flag.empty() ? "an argument" : flag) + " is empty; omit it or give a value");
    return false;
  }
  setVersion();
  wrapHelp();
  std::vector<std::string> arguments = joinFiles(readDecimals(argc, argv));
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  return checkFlags(tool, arguments) && parseOptions(tool, pointers, overview) &&
         checkOccurrences(tool);
}

FaultRecorder::FaultRecorder(mlir::MLIRContext &context)
    : ScopedDiagnosticHandler(&context, [this](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
            ps::getFault(diagnostic) == ps::Fault::CommandLine)
          status = BadCommandLine;
        return mlir::failure(); // not handled, so that the next handler prints the diagnostic
      }) {}

/// Returns the function or tool that writes model files with an ending. Example: ".pt2" gives
/// "torch.export.save (.pt2)".
static std::string describeWriter(StringRef ending) {
  StringRef writer = StringSwitch<StringRef>(ending)
                         .Case(".pt2", "torch.export.save")
                         .Case(".onnx", "torch.onnx.export")
                         .Default("ps-compile --stop-after"); // .mlir
  return (writer + " (" + ending + ")").str();
}

Error checkModelFile(StringRef path, ArrayRef<StringRef> endings) {
  if (!sys::fs::exists(path))
    return fail("model '" + path + "' does not exist");
  if (sys::fs::is_directory(path))
    return fail("model '" + path + "' is a folder; expected a file");
  if (::access(path.str().c_str(), R_OK) != 0)
    return fail("model '" + path + "' cannot be read: " + std::strerror(errno));
  if (!endings.empty() && none_of(endings, [&](StringRef end) { return path.ends_with(end); }))
    return fail("model '" + path + "' is not a " + join(endings, " or ") +
                " file; write one with " + join(map_range(endings, describeWriter), " or "));
  return Error::success();
}

Error checkReadable(StringRef flag, StringRef path) {
  if (sys::fs::is_directory(path))
    return ps::createFlagError(flag, ": '" + path + "' is a folder; expected a file");
  if (::access(path.str().c_str(), R_OK) != 0)
    return ps::createFlagError(flag, ": cannot read '" + path + "': " + std::strerror(errno));
  return Error::success();
}

Expected<std::string> findOutputFile(StringRef output) {
  if (sys::fs::exists(output) && !sys::fs::is_regular_file(output) &&
      !sys::fs::is_directory(output))
    return fail("output '" + output +
                "' is a device or pipe, not a regular file; give the name of a file");
  std::filesystem::path target = output.str();
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(target, error); ++links) {
    std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error)
      break;
    target = target.parent_path() / next; // an absolute `next` replaces the whole path
  }
  return target.string();
}

Error checkOutputFile(StringRef model, StringRef output, StringRef flag) {
  return checkOutputFile(InputFile{model.str(), "is the model itself"}, output, flag);
}

Error checkOutputFile(ArrayRef<InputFile> inputs, StringRef output, StringRef flag) {
  if (output == "-")
    return fail("output '-' is not the name of a file, and this output is not written to the "
                "standard output; give the name of a file");
  if (sys::fs::is_directory(output))
    return fail("output '" + output + "' is a folder; give the name of a file, " +
                ps::spellFlag(flag) + " " + output + "/NAME");
  for (const InputFile &input : inputs)
    if (!input.path.empty() && identifyFile(input.path) == identifyFile(output.str()))
      return fail("output '" + output + "' " + input.use + "; give another name");
  SmallString<128> folder(sys::path::parent_path(output));
  if (folder.empty())
    folder = ".";
  if (!sys::fs::is_directory(folder))
    return fail("output '" + output + "': folder '" + folder + "' does not exist; create it first");
  SmallString<128> probe;
  if (std::error_code code = sys::fs::createUniqueFile(output + ".%%%%%%", probe))
    return fail("output '" + output + "' cannot be written: " + code.message());
  (void)sys::fs::remove(probe);
  return Error::success();
}

} // namespace parashard
