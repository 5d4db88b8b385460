// Declares and reads the flags.
#include "runtime/main/Flags.h"
#include "runtime/core/Status.h"
#include <CLI/CLI.hpp>

namespace psrt {
namespace {

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

/// "NAME=VALUE" as a pair.
std::pair<std::string, double> parseAssignment(const std::string &flag, const std::string &text) {
  size_t equals = text.rfind('=');
  char *end = nullptr;
  double value = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
  if (equals == std::string::npos || equals == 0 || !end || *end ||
      end == text.c_str() + equals + 1)
    throw CLI::ValidationError(flag, "\"" + text + "\" is not NAME=VALUE");
  std::string name = text.substr(0, equals);
  if (name.find('=') != std::string::npos)
    throw CLI::ValidationError(
        flag,
        "\"" + text + "\": a GLOB before the name is not built yet; set a group as lr.0=VALUE");
  return {name, value};
}

/// Flags of cli.md whose features are issues of their own.
void addUnbuilt(CLI::App &app) {
  for (const char *flag :
       {"--config", "--save", "--save-every", "--keep", "--load", "--max-file-size"})
    app.add_option_function<std::string>(
           flag,
           [flag](const std::string &) { throw CLI::ValidationError(flag, "is not built yet"); },
           "not built yet")
        ->group("Not built yet");
}

} // namespace

std::optional<int> parseFlags(int argc, char **argv, Flags &flags) {
  CLI::App app(
      "Trains or evaluates the model that this program was compiled from.\n"
      "  try: --info                                    what it is, and how it is laid out\n"
      "       --data text.bin --steps 100               train on tokens\n"
      "       --data x.safetensors --epochs 3 --export-weights out.safetensors");
  app.set_help_flag("--help,-h", "this text");
  std::vector<std::string> data, evalData, set, fills;

  app.add_option("--ranks", flags.ranks, "ranks, as threads of this process (as compiled)")
      ->check(CLI::PositiveNumber)
      ->group("Ranks");
  app.add_option("--comm", flags.comm, "local | mpi | nccl")
      ->check(CLI::IsMember({"local", "mpi", "nccl"}))
      ->group("Ranks");
  app.add_option("--threads", flags.threads, "threads a rank (cores / ranks)")
      ->check(CLI::PositiveNumber)
      ->group("Ranks");

  app.add_option("--data", data,
                 ".safetensors (a tensor per input), or .bin files of tokens: FILE|GLOB[,...]")
      ->group("Data");
  app.add_option("--data-type", flags.data.type, "uint8 | uint16 | uint32: a token in a .bin file")
      ->check(CLI::IsMember({"uint8", "uint16", "uint32"}))
      ->group("Data");
  app.add_option(
         "--labels", flags.data.labels,
         "next (labels[t] = x[t+1]) | same (the model shifts); default: as the model's graph shows")
      ->check(CLI::IsMember({"next", "same"}))
      ->group("Data");
  app.add_option("--fill", fills, "INPUT=V: fill an input with a value")->group("Data");
  app.add_flag("--shuffle", flags.shuffle, "a new order each epoch, keyed by --seed")
      ->group("Data");
  app.add_option("--seed", flags.seed, "of shuffling, dropout and initial values (0)")
      ->group("Data");
  auto *epochs = app.add_option("--epochs", flags.epochs, "passes over the data (1)")
                     ->check(CLI::NonNegativeNumber)
                     ->group("Data");
  app.add_option("--steps", flags.steps, "steps in all")
      ->check(CLI::NonNegativeNumber)
      ->excludes(epochs)
      ->group("Data");

  app.add_option("--set", set, "NAME=V: a scalar of the update, as lr=3e-4")->group("Update");
  app.add_option("--lr-schedule", flags.schedule,
                 "constant | linear(warmup=W,steps=N) | cosine(warmup=W,steps=N,min=0.1) | "
                 "step(every=N,gamma=0.1)")
      ->group("Update");

  app.add_option("--eval-data", evalData, "data to evaluate on")->group("Evaluation");
  app.add_option("--eval-every", flags.evalEvery, "evaluate every N steps, and at the end")
      ->check(CLI::PositiveNumber)
      ->group("Evaluation");
  app.add_option("--eval-steps", flags.evalSteps, "batches an evaluation (all)")
      ->check(CLI::PositiveNumber)
      ->group("Evaluation");
  app.add_flag("--eval", flags.eval, "evaluate only")->group("Evaluation");
  app.add_option("--outputs", flags.outputs, "with --eval: write outputs, FILE.safetensors")
      ->group("Evaluation");
  app.add_option("--output", flags.outputNames, "which outputs (all)")->group("Evaluation");

  app.add_option("--losses", flags.losses, "write one loss a line")->group("Output");
  app.add_option("--log", flags.log, "write a JSON object a line: step, loss, lr, samples_s, ...")
      ->group("Output");
  app.add_option("--gradients", flags.gradients,
                 "write loss and gradients of step 0, FILE.safetensors")
      ->group("Output");
  app.add_option("--trace", flags.trace, "write a Chrome / Perfetto trace, FILE.json")
      ->group("Output");
  app.add_flag("--quiet", flags.quiet, "no progress")->group("Output");
  app.add_flag("--info", flags.info, "say what this program is, and stop")->group("Output");

  app.add_option("--weights", flags.weights, "start from these weights, FILE.safetensors")
      ->group("State");
  app.add_option("--export-weights", flags.exportWeights,
                 "write the weights at the end, FILE.safetensors")
      ->group("State");
  app.add_flag("--check", flags.check, "compare the first step with the one-rank program, and stop")
      ->group("State");
  addUnbuilt(app);

  try {
    app.parse(argc, argv);
    flags.data.files = splitCommas(data);
    flags.evalData = splitCommas(evalData);
    for (const std::string &text : set)
      flags.set.push_back(parseAssignment("--set", text));
    for (const std::string &text : fills)
      flags.data.fills.push_back(parseAssignment("--fill", text));
    if (flags.comm != "local")
      throw CLI::ValidationError("--comm", flags.comm + " is not built yet; use --comm local");
  } catch (const CLI::Success &done) {
    app.exit(done);
    return 0;
  } catch (const CLI::ParseError &error) {
    std::fprintf(stderr, "error: %s\n(--help lists the flags)\n", error.what());
    return 2;
  }
  return std::nullopt;
}

} // namespace psrt
