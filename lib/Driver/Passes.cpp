// Which passes make each level, in which order, and why each stands where it does.
#include "lib/Fusion/OverlapCost.h"
#include "parashard/Codegen.h"
#include "parashard/Driver.h"
#include "parashard/Precision.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace parashard {
namespace {

/// A pass with its options, as text.
class PassText {
public:
  explicit PassText(llvm::StringRef name) : name(name) {}

  PassText &option(llvm::StringRef key, llvm::StringRef value) {
    if (!value.empty())
      options.push_back((key + "=" + quote(value)).str());
    return *this;
  }
  PassText &option(llvm::StringRef key, int64_t value) {
    return option(key, std::to_string(value));
  }
  /// A switch stands there when it is on.
  PassText &enable(llvm::StringRef key, bool on) { return option(key, on ? "true" : ""); }

  /// A pipeline of passes as a value.
  PassText &nest(llvm::StringRef key, llvm::StringRef pipeline) {
    options.push_back((key + "={" + pipeline + "}").str());
    return *this;
  }

  operator std::string() const {
    return options.empty() ? name : name + "{" + llvm::join(options, " ") + "}";
  }

private:
  /// Option values with blanks, commas or brackets stand in double quotes in a pipeline.
  static std::string quote(llvm::StringRef value) {
    bool plain = llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || strchr("-_./", c); });
    return plain ? value.str() : ("\"" + value + "\"").str();
  }

  std::string name;
  std::vector<std::string> options;
};

bool scalesLoss(const CompileOptions &o) {
  llvm::Expected<PrecisionSpec> spec = parsePrecision(o.precision);
  if (!spec)
    return llvm::consumeError(spec.takeError()), false; // ps-precision says what is wrong
  return spec->scalesLoss() && !o.inference;
}

std::vector<std::string> trainingPasses(const CompileOptions &o) {
  bool adds = !o.loss.empty() && o.loss != "none";
  std::vector<std::string> passes = {PassText("ps-verify-imported")};
  // Before anything folds: dropout that is off is no op.
  if (!o.evalMode && !o.inference)
    passes.push_back(PassText("ps-check-mode"));
  // Parameters of a meta export: first, so that parts of a fused one inherit it.
  passes.push_back(PassText("ps-set-initial-values")
                       .option("init", llvm::join(o.init, ";"))
                       .enable("given", o.weights == "none"));
  // Before anything looks at the loss.
  if (adds)
    passes.push_back(PassText("ps-add-loss").option("kind", o.loss).option("output", o.lossOutput));
  std::vector<std::string> rest = {
      // Each mask that is provably causal, a band or a padding vector becomes an attribute: before
      // anything looks at attention's operands.
      PassText("ps-recognize-attention"),
      PassText("ps-recognize-attention-masks"),
      // Repeated key / value heads become grouped queries.
      PassText("ps-recognize-grouped-queries"),
      // Activations that are written out become ops, whose backward keeps what they read alone.
      PassText("ps-recognize-activations"),
      // One variable a part, so that each part can have its own sharding.
      PassText("ps-split-fused-variables"),
      PassText("canonicalize"),
      PassText("cse"),
      // What labels and token numbers are: while the loss is still one op, and inputs those of the
      // model.
      PassText("ps-recognize-labels"),
      // The backward, the accumulators, and the entries.
      PassText("ps-autodiff")
          .option("loss", o.loss == "none" ? "none"
                          : adds           ? "loss"
                                           : o.lossOutput)
          .option("differentiate", llvm::join(o.differentiate, ";"))
          .option("freeze", llvm::join(o.freeze, ";"))
          .option("loss-average", o.lossAverage)
          .option("batch-dims", llvm::join(o.batchDims, ";"))
          .enable("eval-mode", o.evalMode)
          // In f16 small cotangents vanish.
          .enable("scale-loss", scalesLoss(o))
          .enable("inference", o.inference),
      // What backward computes from constants alone; the marks stay.
      PassText("ps-canonicalize"),
  };
  llvm::append_range(passes, rest);
  // The update of each parameter by its group's optimizer.
  if (!o.inference)
    passes.push_back(PassText("ps-optimizer")
                         .option("optimizer", llvm::join(o.optimizers, ";"))
                         .option("clip-norm", o.clipNorm)
                         .option("ema", o.ema));
  // What model-flops use is measured by: while tensors are whole.
  passes.push_back(PassText("ps-count-flops"));
  passes.push_back(PassText("ps-verify-training"));
  return passes;
}

/// The passes from a plan to addresses, as far as they change anything.
std::string listPassesAfterPlan(const CompileOptions &o) {
  std::vector<std::string> passes;
  for (ps::Level level : {ps::Level::Partitioned, ps::Level::Scheduled, ps::Level::Placed})
    for (std::string &pass : getPasses(level, o))
      if (llvm::StringRef name = pass;
          !name.starts_with("ps-verify-") && !name.starts_with("ps-explain-"))
        passes.push_back(std::move(pass));
  return llvm::join(passes, ",");
}

PassText makeRecompute(const CompileOptions &o) {
  PassText pass("ps-recompute");
  pass.option("mode", o.recompute);
  if (llvm::StringRef(o.recompute).starts_with("budget="))
    pass.nest("then", listPassesAfterPlan(o));
  return pass;
}

/// Matmuls of GPUs load 16 bytes at once, and those in 8 bits want dims of 16.
PassText makeAlignDims(const CompileOptions &o) {
  constexpr int64_t kOfGpu = 16, kAnyWaste = 100000;
  PassText pass("ps-align-dims");
  if (o.alignDims != "auto")
    return pass.option("multiple", o.alignDims == "off" ? "1" : o.alignDims)
        .option("most-waste", kAnyWaste);
  return pass.option("multiple", llvm::StringRef(o.target).starts_with("cuda") ? kOfGpu : 1);
}

std::vector<std::string> plannedPasses(const CompileOptions &o) {
  PassText mesh("ps-set-mesh");
  mesh.option("mesh", o.mesh);
  if (o.ranks)
    mesh.option("ranks", *o.ranks);
  return {
      // First: what is split, kept and computed again depends on types.
      PassText("ps-precision")
          .option("precision", o.precision)
          .option("gradient-reduction", o.gradientReduction)
          .option("zero", o.zero),
      // Constants in their new type, conversions there and back.
      PassText("ps-canonicalize"),
      mesh,
      // The policy decides parameters and inputs; everything else follows from them.
      PassText("ps-seed-shardings").option("policy", o.shardingPolicy),
      // What ranks hold of each dim is known then.
      makeAlignDims(o),
      PassText("ps-propagate-shardings").option("zero", o.zero),
      // After the shardings: equal blocks have equal shardings then.
      PassText("ps-find-segments"),
      // Stages are lists of segments.
      PassText("ps-partition-pipeline")
          .option("method", o.splitMethod)
          .option("chunks", o.numChunks)
          .option("placement", o.placement),
      // After the stages: a chain never leaves its segment.
      makeRecompute(o),
      // Kept in words: the marks that it is read from are gone at the next level, which adds what
      // is moved.
      PassText("ps-explain-shardings").option("record", "true"),
      PassText("ps-explain-pipeline").option("record", "true"),
      PassText("ps-verify-planned"),
  };
}

std::vector<std::string> partitionedPasses(const CompileOptions &o) {
  // Each chunk of a sum over rows is a few warps of a GPU, which wants many of them.
  constexpr int64_t kChunksOfGpu = 1024;
  PassText fuse("ps-fuse");
  bool isGpu = llvm::StringRef(o.target).starts_with("cuda");
  bool activates = o.matmulEpilogues == "on";
  if (isGpu)
    fuse.option("most-chunks", kChunksOfGpu)
        .enable("biases", true)
        .enable("activations", activates)
        .enable("sums", true)
        .enable("float8", codegen::multipliesFloat8(o.target));
  std::vector<std::string> passes = {
      PassText("ps-partition"),
      // Reshards that cancel, pairs that are one collective.
      PassText("ps-simplify-collectives"),
      // What moves, in words: after it is known, before equal parts are one.
      PassText("ps-explain-collectives").option("record", "true"),
      // Before segments become runs; after what moves was told once for all coordinates.
      PassText("ps-split-stages"),
  };
  // What matmuls sum stands beside these, before phases are apart.
  if (isGpu)
    passes.push_back(PassText("ps-defer-sums").enable("activations", activates));
  // From here on all work is per class.
  llvm::append_range(passes, std::vector<std::string>{PassText("ps-outline-segments"), fuse});
  // When it is known what is one kernel, so that nothing moves any more.
  if (o.overlap != "off")
    passes.push_back(PassText("ps-start-collectives")
                         .option("target", llvm::StringRef(o.target).split(':').first)
                         .option("chunks", o.overlap == "auto" ? "" : o.overlap));
  passes.push_back(PassText("ps-verify-partitioned"));
  return passes;
}

std::vector<std::string> scheduledPasses(const CompileOptions &o) {
  std::vector<std::string> passes = {PassText("ps-schedule")
                                         .option("micro-batches", o.microBatches)
                                         .option("schedule", o.schedule),
                                     // Once the order of all runs is known.
                                     PassText("ps-overlap-collectives")};
  // What is used by the update alone is known from its runs; before memory is planned.
  if (!o.offload.empty() && o.offload != "none" && !o.inference) {
    fusion::MachineFigures machine = fusion::findMachine(o.target);
    passes.push_back(PassText("ps-offload")
                         .option("what", o.offload)
                         .option("flops", int64_t(machine.flops))
                         .option("narrow-flops", int64_t(machine.narrowFlops))
                         .option("memory", int64_t(machine.memory))
                         .option("host", int64_t(machine.host)));
  }
  passes.push_back(PassText("ps-verify-scheduled"));
  return passes;
}

} // namespace

std::vector<std::string> getPasses(ps::Level level, const CompileOptions &o) {
  switch (level) {
  case ps::Level::Training:
    return trainingPasses(o);
  case ps::Level::Planned:
    return plannedPasses(o);
  case ps::Level::Partitioned:
    return partitionedPasses(o);
  case ps::Level::Scheduled:
    return scheduledPasses(o);
  case ps::Level::Placed:
    // A step's micro-batches may all be pending at once where the host drives them.
    return {PassText("ps-plan-memory").option("slots", std::max<int64_t>(16, o.microBatches)),
            PassText("ps-verify-placed")};
  case ps::Level::Imported:
  case ps::Level::Native:
    break; // made by an importer; made by code generation
  }
  return {};
}

} // namespace parashard
