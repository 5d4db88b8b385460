// Lists the sharding policies by name.
#include "lib/Sharding/Policy.h"
#include "llvm/ADT/STLExtras.h"

namespace parashard::sharding {

static constexpr Policy kPolicies[] = {
    {"megatron", /*readsOps=*/true, seedMegatron},
    {"megatron+sp", /*readsOps=*/true, seedMegatron, seedSequence,
     "no attention has split heads and is followed by a row parallel contraction, so sequences are "
     "not split (as with megatron)"},
    {"replicated", /*readsOps=*/false, seedReplicated},
    {"tables", /*readsOps=*/true, seedTables, /*seedLater=*/nullptr,
     "no embedding table is read at an input; no parameter is split"},
};

const Policy *findPolicy(llvm::StringRef name) {
  const Policy *policy =
      llvm::find_if(kPolicies, [&](const Policy &each) { return each.name == name; });
  return policy == std::end(kPolicies) ? nullptr : policy;
}

std::string listPolicies() {
  std::string names;
  for (const Policy &policy : kPolicies)
    names += (names.empty() ? "" : ", ") + policy.name.str();
  return names + " or FILE.json";
}

} // namespace parashard::sharding
