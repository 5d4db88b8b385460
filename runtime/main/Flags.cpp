// Defines the flags of a compiled program.
#include "runtime/main/Flags.h"
#include "runtime/core/ScalarRange.h"
#include "runtime/main/Config.h"
#include "runtime/main/FlagTable.h"
#include "runtime/session/Session.h"

namespace psrt {

void addLaunchFlags(FlagTable &table, std::optional<Comm> &comm, int &threads) {
  table.addChoice<Comm>({"comm", "COMM",
                         "local | mpi | tcp | nccl (default: local in one process, mpi under "
                         "mpirun, tcp under torchrun; under srun mpi with PMI, else tcp. If each "
                         "rank has a GPU of its own, collectives use nccl)"},
                        comm);
  table.add({.name = "threads",
             .value = "N",
             .help = "CPU threads per rank (default: cores / ranks)",
             .isOfProcess = true},
            threads, NumberRange{1, kMaxThreads});
}
namespace {

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

/// Adds a setting. Fails if the same scalar is set twice.
void addSetting(std::vector<ScalarSetting> &settings, const std::string &text) {
  ScalarSetting setting = parseSetting(text);
  for (const ScalarSetting &other : settings)
    if (other.glob == setting.glob && other.name == setting.name)
      throw CLI::ValidationError("--set", "\"" + text + "\": given twice; give one value");
  settings.push_back(setting);
}

constexpr const char *kOverview =
    "Trains or evaluates the model compiled into this program.\n"
    "  try: --info                                    describe the program and its layout\n"
    "       --data text.bin --steps 100               train on tokens\n"
    "       --data x.safetensors --epochs 3 --export-weights out.safetensors\n"
    "Exit status: 0 success, 1 error in the data or a file, 2 error in the command line,\n"
    "3 a rank, a device or the runtime failed.";

/// The conflict of a training flag with --eval.
constexpr FlagConflict kTrains = {"eval",
                                  "is for training, and --eval only evaluates; remove one of them"};

void addRanks(FlagTable &t, Flags &f) {
  t.addGroup("Ranks");
  t.add({.name = "config",
         .value = "FILE.json",
         .help = "read flags from a JSON file, such as {\"steps\": 100}; the command line takes "
                 "precedence",
         .isOfProcess = true,
         .isInRunFile = false},
        f.config);
  t.add({"ranks", "N",
         "number of ranks, which must equal the number of devices of the compiled mesh (default: "
         "that number); ranks are threads of this process, or processes of a launcher"},
        f.ranks, NumberRange{1, INT32_MAX});
  addLaunchFlags(t, f.comm, f.threads);
}

void addData(FlagTable &t, Flags &f) {
  t.addGroup("Data");
  t.add({.name = "data",
         .value = "FILE",
         .help = ".safetensors or .npz files (one tensor per input), .npy files (for a model with "
                 "one input), or .bin token files: FILE|GLOB[,...]",
         .takesCommas = true},
        f.data.files);
  t.addChoice<TokenType>({"data-type", "TYPE",
                          "uint8 | uint16 | uint32: token type of .bin files (default: uint8 if "
                          "the model has at most 256 token values, else uint16)"},
                         f.data.type);
  t.addChoice<LabelRule>({"labels", "RULE",
                          "next (labels[t] = x[t+1]) | same (the model shifts the labels); "
                          "default: the rule that the graph shows"},
                         f.data.labels, {LabelRule::Next, LabelRule::Same});
  t.add({"fill", "INPUT=V", "INPUT=V: fill an input with a constant"},
        [&f](const std::string &text) { f.data.fills.push_back(parseAssignment("--fill", text)); });
  t.add({.name = "shuffle",
         .value = "",
         .help = "shuffle the samples of each epoch, in an order that --seed determines",
         .conflicts = {kTrains}},
        f.shuffle);
  t.add({"seed", "N", "seed of shuffling, dropout and initial values (default: 0)"}, f.seed,
        NumberRange{0, UINT64_MAX});
  t.add({.name = "epochs",
         .value = "N",
         .help = "number of passes over the data (default: 1)",
         .conflicts = {kTrains}},
        f.epochs, NumberRange{0});
  t.add({.name = "steps",
         .value = "N",
         .help = "total number of training steps",
         .excludes = "epochs",
         .conflicts = {kTrains}},
        f.steps, NumberRange{0});
}

void addUpdate(FlagTable &t, Flags &f) {
  t.addGroup("Update");
  t.add({.name = "set",
         .value = "NAME=V",
         .help = "set an optimizer scalar: NAME=V (lr=3e-4), or GLOB=lr=V for the matching "
                 "parameters",
         .conflicts = {kTrains}},
        [&f](const std::string &text) { addSetting(f.set, text); });
  t.add({.name = "lr-schedule",
         .value = "SCHEDULE",
         .help = "constant(warmup=W) | linear(warmup=W,steps=N) | cosine(warmup=W,steps=N,min=0.1) "
                 "| step(warmup=W,every=E,gamma=0.1); all arguments except every=E are optional "
                 "(default: constant)",
         .conflicts = {kTrains}},
        f.schedule);
}

void addEvaluation(FlagTable &t, Flags &f) {
  t.addGroup("Evaluation");
  t.add({.name = "eval-data",
         .value = "FILE",
         .help = "evaluation data: FILE|GLOB[,...]",
         .takesCommas = true},
        f.evalData);
  t.add({.name = "eval-every",
         .value = "N",
         .help = "evaluate every N steps and at the end (default: only at the end)",
         .needs = {"eval-data", "eval"}},
        f.evalEvery, NumberRange{1});
  t.add({.name = "eval-steps",
         .value = "N",
         .help = "number of batches per evaluation (default: all)",
         .needs = {"eval-data", "eval"}},
        f.evalSteps, NumberRange{1});
  t.add({"eval", "", "only evaluate, do not train"}, f.eval);
  t.add({.name = "outputs",
         .value = "FILE.safetensors",
         .help = "with --eval: write the model's outputs to FILE.safetensors",
         .needs = {"eval"}},
        f.outputs);
  t.add({.name = "output",
         .value = "NAME",
         .help = "name of an output to write; repeatable (default: all)",
         .needs = {"outputs"}},
        f.outputNames);
}

void addOutput(FlagTable &t, Flags &f) {
  t.addGroup("Output");
  t.add({.name = "losses",
         .value = "FILE",
         .help = "write one loss per line",
         .conflicts = {kTrains}},
        f.losses);
  t.add({.name = "log",
         .value = "FILE",
         .help = "write one JSON object per line: step, loss, lr, samples_s, ...",
         .conflicts = {kTrains}},
        f.log);
  t.add({.name = "log-every",
         .value = "N",
         .help = "--log writes a line every N steps, and also for each evaluation and for the last "
                 "step (default: 1)",
         .needs = {"log"}},
        f.logEvery, NumberRange{1});
  t.add({.name = "gradients",
         .value = "FILE.safetensors",
         .help = "write the loss and gradients of step 0 to FILE.safetensors",
         .conflicts = {kTrains}},
        f.gradients);
  t.add({"trace", "FILE.json", "write a Chrome / Perfetto trace to FILE.json"}, f.trace);
  t.add({"check-memory", "",
         "check each instruction against the memory plan and report the memory used; slow"},
        f.checkMemory);
  t.addChoice<ProgressStyle>(
      {.name = "progress",
       .value = "STYLE",
       .help = "auto | bar | lines | none (default: auto, a bar on a terminal)",
       .isOfProcess = true},
      f.progress);
  t.add({.name = "quiet",
         .value = "",
         .help = "print no progress and no lines about written files",
         .excludes = "progress",
         .isOfProcess = true},
        f.quiet);
  t.add({"info", "", "describe this program and exit"}, f.info);
  t.add({"version", "",
         "print the versions of Parashard and LLVM that compiled this program, and exit"},
        f.version);
}

void addWeights(FlagTable &t, Flags &f) {
  t.addGroup("State");
  t.add({"weights", "FILE.safetensors",
         "start from these weights: FILE.safetensors, or a Hugging Face folder (default: those of "
         "ps-compile --weights)"},
        f.weights);
  t.add({"export-weights", "FILE.safetensors|FOLDER",
         "write the final weights to FILE.safetensors or a folder"},
        f.exportWeights);
  t.add({.name = "export-only",
         .value = "GLOB",
         .help = "weights that --export-weights writes: trained (without frozen weights and "
                 "buffers), or a GLOB of names (default: all)",
         .needs = {"export-weights"}},
        f.exportOnly);
}

void addCheckpoints(FlagTable &t, Flags &f) {
  t.add({.name = "save",
         .value = "FOLDER",
         .help = "save checkpoints (weights, optimizer state, position in the data) to this "
                 "folder, at the end and on SIGTERM or Ctrl-C",
         .conflicts = {kTrains}},
        f.save);
  t.add({.name = "save-every", .value = "N", .help = "also save every N steps", .needs = {"save"}},
        f.saveEvery, NumberRange{1});
  t.add({.name = "keep",
         .value = "N",
         .help = "number of newest checkpoints to keep (default: all)",
         .needs = {"save"}},
        f.keep, NumberRange{1});
  t.add({.name = "load",
         .value = "FOLDER",
         .help = "resume from the checkpoint in FOLDER; latest: from the last checkpoint of "
                 "--save, or start at step 0 if there is none",
         .conflicts = {{"weights", "and --weights both give the initial weights; remove one of "
                                   "them"},
                       {"check", "resumes, and --check starts from the model's initial values; "
                                 "remove --load or --check"}}},
        f.load);
  t.add({"max-file-size", "BYTES",
         "largest file, in bytes, of a weight folder or checkpoint (default: 5000000000)"},
        f.maxFileBytes, NumberRange{1});
  t.add({"check", "",
         "compare the first step with the one-rank program, and exit; needs ps-compile --check"},
        f.check);
}

} // namespace

void addFlags(FlagTable &table, Flags &flags) {
  addRanks(table, flags);
  addData(table, flags);
  addUpdate(table, flags);
  addEvaluation(table, flags);
  addOutput(table, flags);
  addWeights(table, flags);
  addCheckpoints(table, flags);
}

std::optional<int> parseFlags(int argc, char **argv, int64_t rank, Flags &flags) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  Flags given; // the flags of the command line, without the run file
  FlagTable commandLine(kOverview), whole(kOverview);
  addFlags(commandLine, given);
  addFlags(whole, flags);
  return commandLine.run(rank, [&] {
    refuseEmpty(arguments);
    commandLine.parse(arguments);
    if (!given.config.empty())
      for (std::string &argument : readConfig(given.config, commandLine))
        arguments.push_back(std::move(argument));
    whole.parse(arguments);
    whole.checkGiven();
    flags.given = whole.listGiven();
  });
}

} // namespace psrt
