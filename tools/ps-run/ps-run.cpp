// ps-run: runs a module at any level from imported to scheduled in the reference evaluator.
#include "lib/Evaluate/Evaluator.h"
#include "shared/PrintableText.h"
#include "tools/CommandLine.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace mlir;
using namespace parashard;

namespace {

constexpr const char *kOverview = R"(runs a Parashard module, op by op, on N ranks in this process

Slow and exact: the meaning that compiled programs are tested against.
EXAMPLE
  ps-run 3-partitioned.mlir --entry step --micro-batches 2 --inputs batch.safetensors --outputs after.safetensors
Inputs hold the rows of all micro-batches along dim 0, and initial values of variables by name. Outputs hold
results by name and every variable, whole, by symbol.

Exit status: 0 done, 1 the module or its inputs are at fault, 2 bad command line.)";

struct Flags {
  cl::OptionCategory category{"ps-run"};
  cl::opt<std::string> file{cl::Positional, cl::desc("FILE.mlir"), cl::cat(category)};
  cl::opt<std::string> entry{"entry", cl::desc("forward, micro_batch, evaluate or step"),
                             cl::init("forward"), cl::cat(category)};
  cl::opt<int64_t> ranks{"ranks", cl::desc("must be what the module's mesh has"),
                         cl::value_desc("N"), cl::init(0), cl::cat(category)};
  cl::opt<int64_t> microBatches{"micro-batches", cl::desc("micro-batches of a step"),
                                cl::value_desc("N"), cl::init(1), cl::cat(category)};
  cl::opt<int64_t> steps{"steps",
                         cl::desc("steps to run, each on its own rows where inputs have them"),
                         cl::value_desc("N"), cl::init(1), cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("of random numbers and initial values"),
                         cl::value_desc("N"), cl::init(0), cl::cat(category)};
  cl::list<std::string> set{"set", cl::desc("NAME=V: a scalar variable's value"),
                            cl::cat(category)};
  cl::opt<std::string> inputs{"inputs", cl::desc("F.safetensors"), cl::cat(category)};
  cl::opt<std::string> outputs{"outputs", cl::desc("F.safetensors"), cl::cat(category)};
};

/// A message that begins with a flag is about the command line.
LogicalResult bad(MLIRContext &context, const llvm::Twine &message) {
  return mlir::emitError(UnknownLoc::get(&context), message);
}

int refuse(const llvm::Twine &message) {
  llvm::errs() << "ps-run: error: " << escapeControls(message.str(), "\n  ") << "\n";
  return BadCommandLine;
}

/// Gives variables the values that the inputs hold under their names; the rest are inputs.
LogicalResult setVariables(MLIRContext &context, Evaluator &evaluator, NamedTensors &inputs,
                           const Flags &flags) {
  for (auto it = inputs.begin(); it != inputs.end();) {
    ps::VariableOp variable = evaluator.find(it->first);
    if (!variable) {
      ++it;
      continue;
    }
    if (it->second.getShape() != variable.getTensorType().getShape())
      return variable.emitOpError() << "has type " << variable.getTensorType()
                                    << ", the value given " << it->second.getType();
    evaluator.setWhole(variable, it->second);
    it = inputs.erase(it);
  }
  for (const std::string &text : flags.set) {
    auto [name, value] = llvm::StringRef(text).rsplit('=');
    ps::VariableOp variable = evaluator.find(name);
    double number;
    if (!variable || value.getAsDouble(number))
      return bad(context,
                 "--set " + text + ": expected NAME=V with the name of a variable and a number");
    ps::Tensor tensor(variable.getTensorType());
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, number);
    evaluator.setWhole(variable, tensor);
  }
  return success();
}

/// Rows of step `s` where the inputs hold `steps` times what a step needs; else all.
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

/// Runs the entry; the results of the last call.
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

LogicalResult evaluate(MLIRContext &context, const Flags &flags) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(flags.file, &context);
  if (!module)
    return failure();
  FailureOr<Evaluator> evaluator = Evaluator::create(*module, flags.seed);
  if (failed(evaluator))
    return failure();
  if (flags.ranks && flags.ranks != evaluator->getRankCount())
    return bad(context, "--ranks " + llvm::Twine(flags.ranks) + ": the module runs on " +
                            llvm::Twine(evaluator->getRankCount()));
  NamedTensors inputs;
  if (!flags.inputs.empty()) {
    llvm::Expected<NamedTensors> read = readSafetensors(flags.inputs, context);
    if (!read)
      return bad(context, llvm::toString(read.takeError()));
    inputs = std::move(*read);
  }
  if (failed(setVariables(context, *evaluator, inputs, flags)))
    return failure();
  FailureOr<NamedTensors> results = run(*evaluator, inputs, flags);
  if (failed(results))
    return failure();
  if (flags.outputs.empty()) {
    printSmall(*results);
    return success();
  }
  FailureOr<NamedTensors> all = evaluator->getAll();
  if (failed(all))
    return failure();
  for (auto &[name, tensor] : *results)
    (*all)[name] = tensor;
  if (llvm::Error error = writeSafetensors(flags.outputs, *all))
    return bad(context, llvm::toString(std::move(error)));
  return success();
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
    return refuse("no module given: ps-run FILE.mlir [--entry ...] (see --help)");
  if (llvm::Error error = checkModelFile(flags.file))
    return refuse(llvm::toString(std::move(error)));
  if (!flags.outputs.empty()) {
    llvm::Expected<std::string> output = findOutputFile(flags.outputs);
    if (!output)
      return refuse(llvm::toString(output.takeError()));
    flags.outputs = *output;
  }
  if (flags.steps < 1 || flags.microBatches < 1)
    return refuse("--steps and --micro-batches must be at least 1");
  DialectRegistry registry;
  registry.insert<ps::PSDialect, rank::RankDialect, func::FuncDialect, arith::ArithDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // it would be the whole module
  FaultRecorder faults(context);
  return succeeded(evaluate(context, flags)) ? Done : faults.getFault();
}
