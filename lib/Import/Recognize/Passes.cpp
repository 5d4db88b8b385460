// Defines the passes on imported modules.
#include "dialects/ps/Ps.h"
#include "parashard/Import.h"

using namespace mlir;

namespace parashard::import {

#define GEN_PASS_DEF_CHECKMODEPASS
#define GEN_PASS_DEF_RECOGNIZEACTIVATIONSPASS
#define GEN_PASS_DEF_RECOGNIZEATTENTIONPASS
#define GEN_PASS_DEF_RECOGNIZEATTENTIONMASKSPASS
#define GEN_PASS_DEF_RECOGNIZEGROUPEDQUERIESPASS
#define GEN_PASS_DEF_RECOGNIZELABELSPASS
#define GEN_PASS_DECL_SETINITIALVALUESPASS
#define GEN_PASS_DEF_SETINITIALVALUESPASS
#define GEN_PASS_DEF_SPLITFUSEDVARIABLESPASS
#define GEN_PASS_DEF_VERIFYIMPORTEDPASS
#include "lib/Import/Passes.h.inc"

namespace {

struct CheckModePass : impl::CheckModePassBase<CheckModePass> {
  void runOnOperation() override { warnOfEvalMode(getOperation()); }
};

struct RecognizeActivationsPass : impl::RecognizeActivationsPassBase<RecognizeActivationsPass> {
  void runOnOperation() override { recognizeActivations(getOperation()); }
};

struct RecognizeAttentionPass : impl::RecognizeAttentionPassBase<RecognizeAttentionPass> {
  void runOnOperation() override { recognizeAttention(getOperation()); }
};

struct RecognizeAttentionMasksPass
    : impl::RecognizeAttentionMasksPassBase<RecognizeAttentionMasksPass> {
  void runOnOperation() override { recognizeAttentionMasks(getOperation()); }
};

struct RecognizeGroupedQueriesPass
    : impl::RecognizeGroupedQueriesPassBase<RecognizeGroupedQueriesPass> {
  void runOnOperation() override { recognizeGroupedQueries(getOperation()); }
};

struct RecognizeLabelsPass : impl::RecognizeLabelsPassBase<RecognizeLabelsPass> {
  void runOnOperation() override { recognizeLabels(getOperation()); }
};

struct SetInitialValuesPass : impl::SetInitialValuesPassBase<SetInitialValuesPass> {
  using SetInitialValuesPassBase::SetInitialValuesPassBase;
  void runOnOperation() override {
    SmallVector<StringRef> parts;
    StringRef(init).split(parts, ';', -1, /*KeepEmpty=*/false);
    SmallVector<std::string> rules;
    for (StringRef part : parts)
      rules.push_back(part.str());
    if (failed(setInitialValues(getOperation(), rules, given)))
      signalPassFailure();
  }
};

struct VerifyImportedPass : impl::VerifyImportedPassBase<VerifyImportedPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(verifyImported(getOperation())))
      signalPassFailure();
  }
};

struct SplitFusedVariablesPass : impl::SplitFusedVariablesPassBase<SplitFusedVariablesPass> {
  void runOnOperation() override { splitFusedVariables(getOperation()); }
};

} // namespace

void registerImportPasses() {
  registerPass([] { return createCheckModePass(); });
  registerPass([] { return createRecognizeActivationsPass(); });
  registerPass([] { return createRecognizeAttentionPass(); });
  registerPass([] { return createRecognizeAttentionMasksPass(); });
  registerPass([] { return createRecognizeGroupedQueriesPass(); });
  registerPass([] { return createRecognizeLabelsPass(); });
  registerPass([] { return createSetInitialValuesPass(); });
  registerPass([] { return createSplitFusedVariablesPass(); });
  registerPass([] { return createVerifyImportedPass(); });
}

} // namespace parashard::import
