// ps-run: runs a module of any level from imported to scheduled in the reference evaluator.
#include "dialects/ps/Refusal.h"
#include "lib/Evaluate/Evaluator.h"
#include "shared/Counts.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"
#include "tools/DiagnosticPrinter.h"
#include "tools/ps-run/Compare.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace mlir;
using namespace parashard;
using namespace parashard::evaluate;

namespace {

constexpr const char *kOverview = R"(runs a Parashard module, op by op, on N ranks in this process

ps-run is a slow reference evaluator: tests compare compiled programs with its results. For floats,
each op computes in f64 and rounds its results to their element types.

EXAMPLE
  ps-run 3-partitioned.mlir --entry step --micro-batches 2 --inputs batch.safetensors --outputs after.safetensors

--inputs holds the rows of all micro-batches along dim 0, and initial values of variables by name.
--outputs holds the results by name, and the unsharded value of every variable by symbol.
--compare reads a file that another run wrote with --outputs. Example: compare levels 1 and 3:
  ps-run 1-training.mlir --entry step --inputs batch.safetensors --outputs whole.safetensors
  ps-run 3-partitioned.mlir --entry step --inputs batch.safetensors --compare whole.safetensors \
    --tolerance 1e-5

Exit status: 0 success, 1 error in the module or its inputs, or a difference found by --compare,
2 error in the command line.)";

struct Flags {
  cl::OptionCategory category{"ps-run"};
  cl::opt<std::string> file{cl::Positional, cl::desc("FILE.mlir"), cl::cat(category)};
  cl::opt<std::string> entry{
      "entry",
      cl::desc("function to run: forward, micro_batch, evaluate or step (default: forward)"),
      cl::value_desc("ENTRY"), cl::init("forward"), cl::cat(category)};
  cl::opt<int64_t> ranks{"ranks", cl::desc("fail unless the mesh of the module has N ranks"),
                         cl::value_desc("N"), cl::init(0), cl::cat(category)};
  cl::opt<int64_t> microBatches{"micro-batches",
                                cl::desc("with --entry step: micro-batches per step (default: 1)"),
                                cl::value_desc("N"), cl::init(1), cl::cat(category)};
  cl::opt<int64_t> steps{
      "steps",
      cl::desc(
          "with --entry step: steps to run. Dim 0 of each input is split evenly over the "
          "steps. A scalar, or an input whose dim 0 is not divisible by N, is passed unchanged "
          "to each step (default: 1)"),
      cl::value_desc("N"), cl::init(1), cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("seed of random numbers and initial values (default: 0)"),
                         cl::value_desc("N"), cl::init(0), cl::cat(category)};
  cl::list<std::string> set{"set",
                            cl::desc("set every element of the variable NAME to the number V"),
                            cl::value_desc("NAME=V"), cl::cat(category)};
  cl::opt<std::string> inputs{"inputs", cl::desc("read inputs and initial values from FILE"),
                              cl::value_desc("FILE.safetensors"), cl::cat(category)};
  cl::opt<std::string> outputs{"outputs", cl::desc("write results and variables to FILE"),
                               cl::value_desc("FILE.safetensors"), cl::cat(category)};
  cl::opt<std::string> compare{
      "compare", cl::desc("compare results and variables with FILE; exit with 1 if they differ"),
      cl::value_desc("FILE.safetensors"), cl::cat(category)};
  cl::opt<double> tolerance{
      "tolerance",
      cl::desc("largest difference that --compare allows, relative to "
               "max(0.001, the largest absolute element of the tensor) (default: 0)"),
      cl::value_desc("T"), cl::init(0), cl::cat(category)};
};

/// Emits an error about the model or its inputs, without a location.
LogicalResult reportError(MLIRContext &context, const llvm::Twine &message) {
  return mlir::emitError(UnknownLoc::get(&context), message);
}

/// Emits an error about a flag.
LogicalResult badFlag(MLIRContext &context, const llvm::Twine &flag, const llvm::Twine &message) {
  return ps::refuseFlag(UnknownLoc::get(&context), flag) << message;
}

int printUsageError(const llvm::Twine &message) {
  llvm::errs() << "ps-run: error: " << escapeControls(message.str(), "\n  ") << "\n";
  return BadCommandLine;
}

/// Initializes each variable for which `inputs` has a tensor of the same name, and removes this
/// tensor from `inputs`. Then applies `--set`.
LogicalResult setVariables(MLIRContext &context, Evaluator &evaluator, NamedTensors &inputs,
                           const Flags &flags) {
  for (auto it = inputs.begin(); it != inputs.end();) {
    ps::VariableOp variable = evaluator.find(it->first);
    if (!variable) {
      ++it;
      continue;
    }
    if (it->second.getShape() != variable.getTensorType().getShape())
      return variable.emitOpError()
             << "has type " << variable.getTensorType() << ", but --inputs gives a value of type "
             << it->second.getType();
    evaluator.setWhole(variable, it->second);
    it = inputs.erase(it);
  }
  for (const std::string &text : flags.set) {
    auto [name, value] = llvm::StringRef(text).rsplit('=');
    ps::VariableOp variable = evaluator.find(name);
    double number;
    if (!variable || value.getAsDouble(number))
      return badFlag(context, "set " + text,
                     ": expected NAME=V with the name of a variable and a number");
    ps::Tensor tensor(variable.getTensorType());
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, number);
    evaluator.setWhole(variable, tensor);
  }
  return success();
}

/// Returns the inputs of step `s`: an equal share of the rows of each tensor, or the whole tensor
/// if its rows are not divisible by `steps`. Example: 8 rows and 2 steps give step 1 rows 4 to 7.
NamedTensors takeStep(const NamedTensors &inputs, int64_t s, int64_t steps) {
  if (steps == 1)
    return inputs;
  NamedTensors part;
  for (const auto &[name, all] : inputs) {
    if (all.getRank() == 0 || all.getShape()[0] % steps) {
      part[name] = all;
      continue;
    }
    SmallVector<int64_t> shape(all.getShape());
    shape[0] /= steps;
    ps::Tensor rows(RankedTensorType::get(shape, all.getType().getElementType()));
    for (int64_t i = 0; i < rows.size(); ++i) {
      if (rows.isFloat())
        rows.set(i, all.get(s * rows.size() + i));
      else
        rows.setInt(i, all.getInt(s * rows.size() + i));
    }
    part[name] = std::move(rows);
  }
  return part;
}

/// Runs the entry function and returns the results of its last call.
FailureOr<NamedTensors> run(Evaluator &evaluator, const NamedTensors &inputs, const Flags &flags) {
  if (flags.entry != "step")
    return evaluator.call(flags.entry, inputs, 0);
  NamedTensors outputs;
  for (int64_t s = 0; s < flags.steps; ++s) {
    FailureOr<NamedTensors> results =
        evaluator.step(takeStep(inputs, s, flags.steps), flags.microBatches);
    if (failed(results))
      return failure();
    outputs = std::move(*results);
    if (ps::VariableOp loss = evaluator.find("loss")) {
      FailureOr<ps::Tensor> value = evaluator.getWhole(loss);
      if (failed(value))
        return failure();
      llvm::outs() << llvm::formatv("step {0} loss {1:f9}\n", s, value->get(0));
    }
  }
  return outputs;
}

void printSmall(const NamedTensors &results) {
  for (const auto &[name, tensor] : results) {
    llvm::outs() << name << " : " << tensor.getType();
    for (int64_t i = 0; i < std::min<int64_t>(tensor.size(), 16); ++i)
      llvm::outs() << (i ? ", " : " = ") << llvm::formatv("{0}", tensor.get(i));
    llvm::outs() << (tensor.size() > 16 ? ", ...\n" : "\n");
  }
}

/// Reads a .safetensors file. Errors have no location, since they are about a file.
FailureOr<NamedTensors> readTensors(MLIRContext &context, llvm::StringRef path) {
  llvm::Expected<NamedTensors> read = readSafetensors(path, context);
  if (!read)
    return reportError(context, llvm::toString(read.takeError()));
  return std::move(*read);
}

/// Compares the tensors of the run with those of `--compare`, and prints the largest difference.
LogicalResult compare(MLIRContext &context, const NamedTensors &tensors, const Flags &flags) {
  FailureOr<NamedTensors> expected = readTensors(context, flags.compare);
  if (failed(expected))
    return failure();
  llvm::Expected<Agreement> agreement = compareTensors(tensors, *expected, flags.tolerance);
  if (!agreement)
    return reportError(context, flags.compare + ": " + llvm::toString(agreement.takeError()));
  if (agreement->tensor.empty())
    llvm::outs() << llvm::formatv("{0} tensors are equal\n", agreement->tensors);
  else
    llvm::outs() << llvm::formatv("{0} tensors agree; the largest difference is in {1}: {2:e1} "
                                  "relative to max(0.001, its largest absolute element)\n",
                                  agreement->tensors, agreement->tensor, agreement->largest);
  return success();
}

/// Prints the results of the run. With `--outputs` or `--compare`, writes or compares the results
/// and all variables instead.
LogicalResult report(MLIRContext &context, Evaluator &evaluator, const NamedTensors &results,
                     const Flags &flags) {
  if (flags.outputs.empty() && flags.compare.empty()) {
    printSmall(results);
    return success();
  }
  FailureOr<NamedTensors> all = evaluator.getAll();
  if (failed(all))
    return failure();
  for (auto &[name, tensor] : results)
    (*all)[name] = tensor;
  if (!flags.outputs.empty())
    if (llvm::Error error = writeSafetensors(flags.outputs, *all))
      return reportError(context, llvm::toString(std::move(error)));
  return flags.compare.empty() ? success() : compare(context, *all, flags);
}

LogicalResult evaluateModel(MLIRContext &context, const Flags &flags) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(flags.file, &context);
  if (!module)
    return reportError(context, "'" + flags.file +
                                    "' is not a valid module of MLIR; give a file that "
                                    "ps-translate, or ps-compile with --stop-after or --dump-dir, "
                                    "has written");
  FailureOr<Evaluator> evaluator = Evaluator::create(*module, flags.seed);
  if (failed(evaluator))
    return failure();
  if (flags.ranks && flags.ranks != evaluator->getRankCount())
    return badFlag(context, "ranks " + llvm::Twine(flags.ranks),
                   ": the module's mesh has " + describeCount(evaluator->getRankCount(), "rank"));
  FailureOr<NamedTensors> inputs = NamedTensors();
  if (!flags.inputs.empty())
    inputs = readTensors(context, flags.inputs);
  if (failed(inputs) || failed(setVariables(context, *evaluator, *inputs, flags)))
    return failure();
  FailureOr<NamedTensors> results = run(*evaluator, *inputs, flags);
  if (failed(results))
    return failure();
  return report(context, *evaluator, *results, flags);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  parashard::reportFailedWrites();
  Flags flags;
  cl::HideUnrelatedOptions(flags.category);
  if (!parashard::parseTool(argc, argv, kOverview))
    return BadCommandLine;
  if (flags.file.empty())
    return printUsageError("no module given: ps-run FILE.mlir [--entry ...] (see --help)");
  if (llvm::Error error = checkModelFile(flags.file))
    return printUsageError(llvm::toString(std::move(error)));
  for (auto [flag, path] : {std::pair("inputs", &flags.inputs), {"compare", &flags.compare}}) {
    bool isWrittenFirst = path == &flags.compare && *path == flags.outputs;
    if (path->empty() || isWrittenFirst)
      continue;
    if (llvm::Error error = checkReadable(flag, *path))
      return printUsageError(llvm::toString(std::move(error)));
  }
  if (!flags.outputs.empty()) {
    llvm::Expected<std::string> output = findOutputFile(flags.outputs);
    if (!output)
      return printUsageError(llvm::toString(output.takeError()));
    flags.outputs = *output;
    if (llvm::Error error = parashard::checkOutputFile(flags.file, flags.outputs, "outputs"))
      return printUsageError(llvm::toString(std::move(error)));
  }
  if (flags.steps < 1 || flags.microBatches < 1)
    return printUsageError(
        llvm::toString(ps::createFlagError("steps", " and --micro-batches must be at least 1")));
  if (flags.entry != "step")
    for (const cl::Option *flag :
         std::initializer_list<const cl::Option *>{&flags.steps, &flags.microBatches})
      if (flag->getNumOccurrences())
        return printUsageError(
            llvm::toString(ps::createFlagError(flag->ArgStr, " needs --entry step")));
  if (!(flags.tolerance >= 0))
    return printUsageError(
        llvm::toString(ps::createFlagError("tolerance", " must not be negative")));
  if (flags.tolerance.getNumOccurrences() && flags.compare.empty())
    return printUsageError(llvm::toString(ps::createFlagError("tolerance", " needs --compare")));
  DialectRegistry registry;
  registry.insert<ps::PSDialect, rank::RankDialect, func::FuncDialect, arith::ArithDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // the op may be the whole module
  DiagnosticPrinter printer(context);
  FaultRecorder faults(context);
  return succeeded(evaluateModel(context, flags)) ? Done : faults.getStatus();
}
