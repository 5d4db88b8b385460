// The plan in words, put together from what each phase has to say.
#include "lib/Sharding/Explain.h"
#include "dialects/ps/Ps.h"
#include "parashard/Pipelines.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace parashard {

/// How many attentions got which form, in the order of the model.
static void printAttentionForms(ModuleOp module, llvm::raw_ostream &os) {
  llvm::MapVector<StringRef, int64_t> forms;
  module.walk([&](ps::AttentionOp op) {
    auto phase = op->getAttrOfType<ps::PhaseAttr>(ps::kPhaseMark);
    auto form = op->getAttrOfType<StringAttr>("ps.attention_form");
    if (form && (!phase || phase.getValue() == ps::Phase::Forward))
      ++forms[form.getValue()];
  });
  for (auto [form, count] : forms)
    os << "attention: " << count << " x " << form << "\n";
}

std::string explainPlan(ModuleOp module) {
  std::string text = ps::getExplanation(module);
  llvm::raw_string_ostream os(text);
  printAttentionForms(module, os);
  return text;
}

} // namespace parashard
