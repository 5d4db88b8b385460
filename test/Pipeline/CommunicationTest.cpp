// Tests that the verifiers of levels 3 and 4 reject exactly the communication mutations that make
// the evaluator fail.
//
//   PARASHARD_MUTATIONS=10000 PARASHARD_MUTATION_SEED=1 ps-communication-test
#include "lib/Evaluate/Evaluator.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Driver.h"
#include "test/Pipeline/Mutator.h"
#include "gtest/gtest.h"
#include <chrono>

using namespace mlir;
using namespace parashard;
using namespace parashard::driver;
using namespace parashard::evaluate;

namespace {

/// A model with a tied embedding. `makeModel` replaces the BLOCK lines by four blocks, so that
/// every axis kind and every stage has work.
constexpr const char *kModel = R"(
module attributes {ps.level = #ps.level<imported>} {
  ps.variable parameter @emb names ["emb"] : tensor<8x4xf32>
BLOCK_VARIABLES
  func.func @forward(%ids: tensor<4xi64> {ps.name = "ids"}, %y: tensor<4x8xf32> {ps.name = "y"}) -> (tensor<f32> {ps.name = "loss"}) {
    %e = ps.read @emb : tensor<8x4xf32> loc("emb")
    %x0 = ps.embedding %e, %ids : tensor<8x4xf32>, tensor<4xi64> -> tensor<4x4xf32> loc("emb")
BLOCK_OPS
    %f = ps.read @emb : tensor<8x4xf32> loc("head")
    %l = ps.contract %x4 [0, 1], %f [2, 1] -> [0, 2] : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32> loc("head")
    %d = ps.sub %l, %y : tensor<4x8xf32> loc("head")
    %q = ps.mul %d, %d : tensor<4x8xf32> loc("head")
    %s = ps.reduce sum %q dims [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("head")
    %n = ps.constant dense<3.200000e+01> : tensor<f32> loc("head")
    %r = ps.div %s, %n : tensor<f32> loc("head")
    return %r : tensor<f32>
  }
}
)";

/// Returns `kModel` with four blocks of two matmuls each.
std::string makeModel() {
  std::string variables, ops;
  for (int i = 0; i < 4; ++i) {
    std::string n = std::to_string(i), name = "h." + n, loc = " loc(\"" + name + "\")\n";
    for (const char *weight : {".up", ".down"})
      variables += "  ps.variable parameter @" + name + weight + " names [\"" + name + weight +
                   "\"] : tensor<" + (weight[1] == 'u' ? "8x4" : "4x8") + "xf32>\n";
    std::string up = "%u" + n, hidden = "%a" + n, act = "%g" + n, down = "%w" + n;
    ops += "    " + up + " = ps.read @" + name + ".up : tensor<8x4xf32>" + loc;
    ops += "    " + hidden + " = ps.contract %x" + n + " [0, 1], " + up +
           " [2, 1] -> [0, 2] : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>" + loc;
    ops += "    " + act + " = ps.tanh " + hidden + " : tensor<4x8xf32>" + loc;
    ops += "    " + down + " = ps.read @" + name + ".down : tensor<4x8xf32>" + loc;
    ops += "    %x" + std::to_string(i + 1) + " = ps.contract " + act + " [0, 2], " + down +
           " [1, 2] -> [0, 1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>" + loc;
  }
  std::string text = kModel;
  for (auto &[mark, lines] : {std::pair{"BLOCK_VARIABLES\n", variables}, {"BLOCK_OPS\n", ops}})
    text.replace(text.find(mark), strlen(mark), lines);
  return text;
}

/// Compile options of a module to mutate.
struct Plan {
  const char *mesh;
  int64_t zero = 0, chunks = 1, microBatches = 2;
  const char *schedule = "", *placement = "loop";
};
const Plan kPlans[] = {
    {"dp=2"},
    {"dp=2", 1},
    {"dp=2", 2},
    {"dp=2", 3},
    {"tp=2"},
    {"pp=2"},
    {"pp=3"},
    {"pp=4", 0, 1, 4, "gpipe"},
    {"pp=2", 0, 2, 2, "interleaved"},
    {"pp=2", 0, 1, 3, "zb-h1"},
    {"pp=2", 0, 2, 3, "zb-v", "v"},
    {"dp=2,pp=2", 1},
    {"dp=2,pp=2", 3},
    {"tp=2,pp=2", 0, 2, 2, "interleaved"},
    {"dp=2,tp=2,pp=2", 1},
    {"dp=2,tp=2,pp=2", 3, 1, 3, "zb-h1"},
};

/// A valid module and its compile options.
struct Base {
  Plan plan;
  ps::Level level;
  OwningOpRef<ModuleOp> module;
};

/// Records the text of the first error.
class FirstError : public ScopedDiagnosticHandler {
public:
  explicit FirstError(MLIRContext *context)
      : ScopedDiagnosticHandler(context, [this](Diagnostic &diagnostic) {
          if (text.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
            text = diagnostic.str();
          return success();
        }) {}
  std::string text;
};

/// Constraints whose violation a replay does not show, with the reason why the module is invalid.
const std::pair<const char *, const char *> kStatic[] = {
    {"scheduled_c3", "waits out of order: the thread of a queue completes one entry at a time"},
    {"scheduled_c6", "a write during a collective that reads the same memory is a race"},
    {"scheduled_c10", "sums in another order give other bits"},
    {"scheduled_c17", "a coordinate without a program has nothing to run when the host calls"},
    {"partitioned_c3", "ops between runs are not executed"},
    {"partitioned_c7", "a coordinate without a function has nothing to run when the host calls"},
};

bool isStatic(const std::string &verdict) {
  return llvm::any_of(kStatic, [&](auto &entry) {
    return verdict.find("(" + std::string(entry.first) + ")") != std::string::npos;
  });
}

class CommunicationTest : public testing::Test {
protected:
  void SetUp() override {
    static bool registered = (registerAllPasses(), true);
    (void)registered;
    registerEverything(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
    context.loadAllAvailableDialects();
    for (const Plan &plan : kPlans)
      ASSERT_NO_FATAL_FAILURE(addBases(plan));
  }

  void addBases(const Plan &plan) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(makeModel(), &context);
    ASSERT_TRUE(module);
    CompileOptions options;
    options.mesh = plan.mesh;
    options.zero = plan.zero;
    options.numChunks = plan.chunks;
    options.microBatches = plan.microBatches;
    options.schedule = plan.schedule;
    options.placement = plan.placement;
    options.optimizers = {"sgd(lr=0.1)"};
    options.clipNorm = "1";
    options.init = {"normal(0.5)"};
    for (ps::Level level : {ps::Level::Partitioned, ps::Level::Scheduled}) {
      WalkOptions walk;
      walk.stopAfter = level;
      ASSERT_TRUE(succeeded(runWalk(*module, options, walk))) << plan.mesh;
      bases.push_back({plan, level, OwningOpRef<ModuleOp>(module->clone())});
    }
  }

  /// Returns the first error of the verifiers, or an empty string for a valid module. `isOfOp` is
  /// set if the verifier of a single op fails.
  std::string verify(ModuleOp module, ps::Level level, bool &isOfOp) {
    FirstError error(&context);
    isOfOp = failed(mlir::verify(module));
    if (isOfOp)
      return error.text;
    PassManager pm(&context, ModuleOp::getOperationName());
    const char *pass =
        level == ps::Level::Partitioned ? "ps-verify-partitioned" : "ps-verify-scheduled";
    EXPECT_TRUE(succeeded(parsePassPipeline(pass, pm)));
    pm.enableVerifier(false);
    return failed(pm.run(module)) ? error.text : "";
  }

  NamedTensors makeInputs(int64_t rows) {
    Builder b(&context);
    NamedTensors inputs;
    inputs["ids"] = ps::Tensor(RankedTensorType::get({rows}, b.getI64Type()));
    inputs["y"] = ps::Tensor(RankedTensorType::get({rows, 8}, b.getF32Type()));
    for (int64_t i = 0; i < rows; ++i)
      inputs["ids"].setInt(i, i % 8);
    return inputs;
  }

  /// Runs a step and an evaluation. Returns the first error, or an empty string if both complete.
  std::string replay(ModuleOp module, const Plan &plan) {
    FirstError error(&context);
    FailureOr<Evaluator> evaluator = Evaluator::create(module, 0);
    bool runs = succeeded(evaluator) &&
                succeeded(evaluator->step(makeInputs(4 * plan.microBatches), plan.microBatches)) &&
                succeeded(evaluator->call("evaluate", makeInputs(4), 0));
    return runs ? "" : error.text.empty() ? "failed without an error message" : error.text;
  }

  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::vector<Base> bases;
};

/// Outcomes of one kind of mutation: rejected by the verifier of an op, by verifier and replay, by
/// a constraint of `kStatic` alone, accepted by both, or a disagreement.
struct Counts {
  int total = 0, ofOp = 0, both = 0, byRule = 0, valid = 0, disagree = 0;
};

int64_t getNumber(const char *variable, int64_t defaultValue) {
  const char *text = std::getenv(variable);
  return text ? std::strtoll(text, nullptr, 10) : defaultValue;
}

/// Returns the days since 1970, the default seed.
int64_t getDay() {
  return std::chrono::duration_cast<std::chrono::hours>(
             std::chrono::system_clock::now().time_since_epoch())
             .count() /
         24;
}

TEST_F(CommunicationTest, UnchangedModulesAreValidAndRun) {
  for (Base &base : bases) {
    bool isOfOp = false;
    EXPECT_EQ(verify(*base.module, base.level, isOfOp), "") << base.plan.mesh;
    EXPECT_EQ(replay(*base.module, base.plan), "") << base.plan.mesh;
  }
}

TEST_F(CommunicationTest, VerdictsEqualReplays) {
  int64_t seed = getNumber("PARASHARD_MUTATION_SEED", getDay());
  int64_t runs = getNumber("PARASHARD_MUTATIONS", 200);
  std::printf("%lld mutations, PARASHARD_MUTATION_SEED=%lld\n", (long long)runs, (long long)seed);
  std::vector<Counts> counts(test::Mutator::getKinds().size());
  for (int64_t i = 0; i < runs; ++i) {
    Base &base = bases[i % bases.size()];
    OwningOpRef<ModuleOp> module(base.module->clone());
    test::Mutator mutator(*module, uint64_t(seed) * 1000003 + i);
    Counts &count = counts[mutator.mutate()];
    ++count.total;
    bool isOfOp = false;
    std::string verdict = verify(*module, base.level, isOfOp);
    if (isOfOp) {
      ++count.ofOp;
      continue;
    }
    std::string replayed = replay(*module, base.plan);
    bool agree = verdict.empty() == replayed.empty();
    bool byRule = !agree && !verdict.empty() && isStatic(verdict);
    ++(agree    ? (verdict.empty() ? count.valid : count.both)
       : byRule ? count.byRule
                : count.disagree);
    EXPECT_TRUE(agree || byRule) << "mutation " << i << " of seed " << seed << ", level "
                                 << unsigned(base.level) << ", mesh " << base.plan.mesh << ": "
                                 << mutator.description << "\n  verifier: " << verdict
                                 << "\n  replay: " << replayed;
  }
  std::printf("%-20s %7s %7s %7s %7s %7s %9s\n", "mutation", "total", "of op", "both", "by rule",
              "valid", "disagree");
  for (auto [kind, count] : llvm::zip(test::Mutator::getKinds(), counts))
    std::printf("%-20s %7d %7d %7d %7d %7d %9d\n", kind.name, count.total, count.ofOp, count.both,
                count.byRule, count.valid, count.disagree);
}

} // namespace
