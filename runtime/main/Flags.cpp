// Declares and parses the command-line flags.
#include "runtime/main/Flags.h"
#include "runtime/core/ScalarRange.h"
#include "runtime/main/Config.h"
#include "runtime/session/Session.h"
#include <algorithm>
#include <charconv>

namespace psrt {
namespace {

/// Splits comma-separated lists and drops empty items.
std::vector<std::string> splitCommas(const std::vector<std::string> &lists) {
  std::vector<std::string> result;
  for (const std::string &list : lists) {
    std::stringstream stream(list);
    for (std::string item; std::getline(stream, item, ',');)
      if (!item.empty())
        result.push_back(item);
  }
  return result;
}

/// Accepts a whole number of at least `least`. CLI11's own ranges print hundreds of digits. Numbers
/// are decimal even with leading zeros: `010` is 10, where CLI11 reads 8.
CLI::Validator wholeNumber(uint64_t least, uint64_t most = INT64_MAX) {
  auto check = [=](std::string &text) -> std::string {
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) {
      text = std::to_string(value);
      return "";
    }
    std::string limit = "must be at least " + std::to_string(least);
    bool large = error == std::errc::result_out_of_range || (stop == end && value > most);
    if (large)
      limit = "must be at most " + std::to_string(most);
    return limit + ", a whole number, not \"" + text + "\"";
  };
  return CLI::Validator(check, "", "");
}

/// Splits "NAME=VALUE" into a pair.
std::pair<std::string, double> parseAssignment(const std::string &flag, const std::string &text) {
  size_t equals = text.rfind('=');
  char *end = nullptr;
  double value = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
  if (equals == std::string::npos || equals == 0 || !end || *end ||
      end == text.c_str() + equals + 1)
    throw CLI::ValidationError(flag, "\"" + text + "\" is not NAME=VALUE");
  return {text.substr(0, equals), value};
}

/// Parses "NAME=VALUE" or "GLOB=lr=VALUE".
ScalarSetting parseSetting(const std::string &text) {
  auto [name, value] = parseAssignment("--set", text);
  size_t equals = name.rfind('=');
  std::string scalar = equals == std::string::npos ? name : name.substr(equals + 1);
  if (std::string expected = describeScalarRange(scalar, value); !expected.empty())
    throw CLI::ValidationError("--set", "\"" + text + "\": expected " + expected);
  if (equals == std::string::npos)
    return {"", name, value};
  std::string glob = name.substr(0, equals);
  name = name.substr(equals + 1);
  if (name != "lr" || glob.empty())
    throw CLI::ValidationError("--set",
                               "\"" + text +
                                   "\": only lr can be set per parameter; write GLOB=lr=VALUE "
                                   "or NAME=VALUE");
  return {glob, name, value};
}

/// Adds a setting. Fails if the same scalar is set twice, as one of the values would be lost.
void addSetting(std::vector<ScalarSetting> &settings, const std::string &text) {
  ScalarSetting setting = parseSetting(text);
  for (const ScalarSetting &other : settings)
    if (other.glob == setting.glob && other.name == setting.name)
      throw CLI::ValidationError("--set", "\"" + text + "\": given twice; give one value");
  settings.push_back(setting);
}

/// Parses one command line with CLI11.
class Parser {
public:
  explicit Parser(Flags &flags)
      : flags(flags),
        app("Trains or evaluates the model compiled into this program.\n"
            "  try: --info                                    describe the program and its layout\n"
            "       --data text.bin --steps 100               train on tokens\n"
            "       --data x.safetensors --epochs 3 --export-weights out.safetensors") {
    app.set_help_flag("--help,-h", "print this help and exit");
    addRanks();
    addData();
    addUpdate();
    addEvaluation();
    addOutput();
    addState();
  }

  void parse(const std::vector<std::string> &arguments);
  const CLI::App &getApp() const { return app; }
  std::string config;

private:
  void addRanks();
  void addData();
  void addUpdate();
  void addEvaluation();
  void addOutput();
  void addState();

  /// Adds a flag that takes the name of an enum value, one of `choices`.
  template <typename Enum, typename Target>
  CLI::Option *addChoice(const char *flag, Target &target, const std::vector<std::string> &choices,
                         const char *help) {
    auto assign = [&target](const std::string &name) { target = *findName<Enum>(name); };
    return app.add_option_function<std::string>(flag, assign, help)->check(CLI::IsMember(choices));
  }

  Flags &flags;
  CLI::App app;
  std::vector<std::string> data, evalData, set, fills;
};

void Parser::addRanks() {
  app.add_option("--config", config,
                 "read flags from a JSON file, {\"steps\": 100}; the command line takes precedence")
      ->group("Ranks");
  app.add_option("--ranks", flags.ranks,
                 "number of ranks: threads of this process or processes of a launcher (default: as "
                 "compiled)")
      ->transform(wholeNumber(1, INT32_MAX))
      ->group("Ranks");
  addChoice<Comm>(
      "--comm", flags.comm, listNames<Comm>(),
      "local | mpi | tcp | nccl (default: mpi under mpirun, tcp under torchrun; nccl on GPUs if "
      "each rank has its own)")
      ->group("Ranks");
  app.add_option("--threads", flags.threads, "CPU threads per rank (default: cores / ranks)")
      ->transform(wholeNumber(1, kMaxThreads))
      ->group("Ranks");
}

void Parser::addData() {
  app.add_option(
         "--data", data,
         ".safetensors or .npz files (one tensor per input), .npy files (for a model with one "
         "input), or .bin token files: FILE|GLOB[,...]")
      ->group("Data");
  addChoice<TokenType>("--data-type", flags.data.type, listNames<TokenType>(),
                       "uint8 | uint16 | uint32: token type of .bin files")
      ->group("Data");
  addChoice<LabelRule>(
      "--labels", flags.data.labels, {"next", "same"},
      "next (labels[t] = x[t+1]) | same (the model shifts the labels); default: as "
      "found in the graph")
      ->group("Data");
  app.add_option("--fill", fills, "INPUT=V: fill an input with a constant")->group("Data");
  app.add_flag("--shuffle", flags.shuffle, "shuffle the samples each epoch, keyed by --seed")
      ->group("Data");
  app.add_option("--seed", flags.seed, "seed of shuffling, dropout and initial values (default: 0)")
      ->transform(wholeNumber(0, UINT64_MAX))
      ->group("Data");
  auto *epochs =
      app.add_option("--epochs", flags.epochs, "number of passes over the data (default: 1)")
          ->transform(wholeNumber(0))
          ->group("Data");
  app.add_option("--steps", flags.steps, "total number of training steps")
      ->transform(wholeNumber(0))
      ->excludes(epochs)
      ->group("Data");
}

void Parser::addUpdate() {
  app.add_option(
         "--set", set,
         "set an optimizer scalar: NAME=V (lr=3e-4), or GLOB=lr=V for the matching parameters")
      ->group("Update");
  app.add_option("--lr-schedule", flags.schedule,
                 "constant | linear(warmup=W,steps=N) | cosine(warmup=W,steps=N,min=0.1) | "
                 "step(every=N,gamma=0.1)")
      ->group("Update");
}

void Parser::addEvaluation() {
  app.add_option("--eval-data", evalData, "evaluation data: FILE|GLOB[,...]")->group("Evaluation");
  app.add_option("--eval-every", flags.evalEvery, "evaluate every N steps and at the end")
      ->transform(wholeNumber(1))
      ->group("Evaluation");
  app.add_option("--eval-steps", flags.evalSteps, "number of batches per evaluation (default: all)")
      ->transform(wholeNumber(1))
      ->group("Evaluation");
  app.add_flag("--eval", flags.eval, "only evaluate, do not train")->group("Evaluation");
  app.add_option("--outputs", flags.outputs,
                 "with --eval: write the model's outputs to FILE.safetensors")
      ->group("Evaluation");
  app.add_option("--output", flags.outputNames,
                 "name of an output to write; repeatable (default: all)")
      ->group("Evaluation");
}

void Parser::addOutput() {
  app.add_option("--losses", flags.losses, "write one loss per line")->group("Output");
  app.add_option("--log", flags.log,
                 "write one JSON object per line: step, loss, lr, samples_s, ...")
      ->group("Output");
  app.add_option("--gradients", flags.gradients,
                 "write the loss and gradients of step 0 to FILE.safetensors")
      ->group("Output");
  app.add_option("--trace", flags.trace, "write a Chrome / Perfetto trace to FILE.json")
      ->group("Output");
  app.add_flag("--check-memory", flags.checkMemory,
               "check each instruction against the memory plan and report the memory used; slow")
      ->group("Output");
  auto *progress =
      addChoice<ProgressStyle>("--progress", flags.progress, listNames<ProgressStyle>(),
                               "auto | bar | lines | none (default: auto, a bar on a terminal)")
          ->group("Output");
  app.add_flag("--quiet", flags.quiet, "print no progress, same as --progress none")
      ->excludes(progress)
      ->group("Output");
  app.add_flag("--info", flags.info, "describe this program and exit")->group("Output");
  app.add_flag("--version", flags.version, "print the versions that compiled this program and exit")
      ->group("Output");
}

void Parser::addState() {
  app.add_option("--weights", flags.weights,
                 "start from these weights: FILE.safetensors, or a Hugging Face folder")
      ->group("State");
  app.add_option("--export-weights", flags.exportWeights,
                 "write the final weights to FILE.safetensors or a folder")
      ->group("State");
  app.add_option(
         "--export-only", flags.exportOnly,
         "weights that --export-weights writes: trained (without frozen weights and buffers), or a "
         "GLOB of names (default: all)")
      ->group("State");
  app.add_option(
         "--save", flags.save,
         "save checkpoints (weights, optimizer, data position) to this folder, at the end and on "
         "SIGTERM or Ctrl-C"
         "data position")
      ->group("State");
  app.add_option("--save-every", flags.saveEvery, "also save every N steps; needs --save")
      ->transform(wholeNumber(1))
      ->group("State");
  app.add_option("--keep", flags.keep, "number of newest checkpoints to keep (default: all)")
      ->transform(wholeNumber(1))
      ->group("State");
  app.add_option("--load", flags.load,
                 "resume from a checkpoint: its folder, or latest for the last checkpoint of "
                 "--save, if any")
      ->group("State");
  app.add_option("--max-file-size", flags.maxFileBytes,
                 "largest file, in bytes, of a weight folder or checkpoint (default: 5e9)")
      ->transform(wholeNumber(1))
      ->group("State");
  app.add_flag("--check", flags.check, "compare the first step with the one-rank program and exit")
      ->group("State");
}

void Parser::parse(const std::vector<std::string> &arguments) {
  std::vector<const char *> argv{"program"};
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  app.parse(int(argv.size()), argv.data());
  for (const CLI::Option *option : app.get_options()) {
    std::string name = option->get_name(), text = name;
    for (const std::string &value : option->results())
      text += " " + value;
    bool mayDifferPerRank =
        name == "--threads" || name == "--quiet" || name == "--progress" || name == "--config";
    if (option->count() && !mayDifferPerRank)
      flags.given.push_back(text);
  }
  std::sort(flags.given.begin(), flags.given.end());
  flags.data.files = splitCommas(data);
  flags.evalData = splitCommas(evalData);
  for (const std::string &text : set)
    addSetting(flags.set, text);
  for (const std::string &text : fills)
    flags.data.fills.push_back(parseAssignment("--fill", text));
}

} // namespace

/// Fails if a flag has an empty value, for example from an unset shell variable.
static void refuseEmpty(const std::vector<std::string> &arguments) {
  std::string flag = "an argument";
  for (const std::string &argument : arguments) {
    bool isFlag = argument.rfind("--", 0) == 0;
    if (isFlag)
      flag = argument.substr(0, argument.find('='));
    if (argument.empty() || (isFlag && argument.back() == '='))
      throw CLI::ValidationError(flag, "its value is empty; omit the flag, or give a value");
  }
}

std::optional<int> parseFlags(int argc, char **argv, int64_t rank, Flags &flags) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  Flags given;
  Parser parser(given);
  try {
    refuseEmpty(arguments);
    parser.parse(arguments);
    if (parser.config.empty()) {
      flags = given;
      return std::nullopt;
    }
    for (std::string &argument : readConfig(parser.config, parser.getApp()))
      arguments.push_back(std::move(argument));
    Parser(flags).parse(arguments);
    flags.config = parser.config;
  } catch (const CLI::Success &done) {
    if (rank == 0)
      parser.getApp().exit(done);
    return 0;
  } catch (const CLI::ParseError &error) {
    std::string who = rank > 0 ? format("rank %lld: ", (long long)rank) : "";
    if (rank >= 0)
      std::fprintf(stderr, "error: %s%s\n(--help lists the flags)\n", who.c_str(), error.what());
    return 2;
  }
  return std::nullopt;
}

} // namespace psrt
