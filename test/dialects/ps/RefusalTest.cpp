// Tests that errors carry their kind as data, whatever their text begins with.
#include "dialects/ps/Refusal.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace parashard;

namespace {

/// Records the text and the kind of the last diagnostic.
class RefusalTest : public testing::Test {
protected:
  RefusalTest()
      : handler(&context, [this](Diagnostic &diagnostic) {
          text = diagnostic.str();
          fault = ps::getFault(diagnostic);
          return success();
        }) {
    context.printOpOnDiagnostic(false);
  }

  void expect(const char *expectedText, ps::Fault expectedFault) {
    EXPECT_EQ(text, expectedText);
    EXPECT_EQ(fault, expectedFault);
  }

  MLIRContext context;
  ScopedDiagnosticHandler handler;
  OwningOpRef<ModuleOp> owned = ModuleOp::create(UnknownLoc::get(&context));
  ModuleOp module = *owned;
  std::string text;
  std::optional<ps::Fault> fault;
};

TEST_F(RefusalTest, OtherErrorsAreFailuresOfTheCompiler) {
  module.emitError("--x is the name of a value");
  expect("--x is the name of a value", ps::Fault::Compiler);
  ps::reportError(module, llvm::createStringError("--x.bin: no such file"));
  expect("--x.bin: no such file", ps::Fault::Compiler);
}

TEST_F(RefusalTest, ErrorsOfTheModel) {
  ps::refuse(module) << "--x is the name of an input";
  expect("--x is the name of an input", ps::Fault::Model);
}

TEST_F(RefusalTest, DiagnosticsOfFlagsBeginWithTheFlag) {
  ps::refuseFlag(module, "freeze no.such") << ": matches no parameter";
  expect("--freeze no.such: matches no parameter", ps::Fault::CommandLine);
  ps::refuseFlag(module.getLoc(), "mesh") << ": no axis";
  expect("--mesh: no axis", ps::Fault::CommandLine);
  ps::warnFlag(module, "zero 1") << " has no effect";
  expect("--zero 1 has no effect", ps::Fault::CommandLine);
  ps::warnFlag(module.getLoc(), "zero 2") << " has no effect";
  expect("--zero 2 has no effect", ps::Fault::CommandLine);
  ps::remarkFlag(module, "zero") << " is off";
  expect("--zero is off", ps::Fault::CommandLine);
}

TEST_F(RefusalTest, ErrorsKeepTheirKindAsDiagnostics) {
  ps::reportError(module, ps::createFlagError("dim x.0=3", ": too small"));
  expect("--dim x.0=3: too small", ps::Fault::CommandLine);
  ps::reportError(module.getLoc(), ps::createFlagError("o", " x: a folder"));
  expect("-o x: a folder", ps::Fault::CommandLine);
}

TEST(SpellFlagTest, OneLetterTakesOneDash) {
  EXPECT_EQ(ps::spellFlag("mesh dp=2"), "--mesh dp=2");
  EXPECT_EQ(ps::spellFlag("o gpt"), "-o gpt");
}

} // namespace
