// Converts scaled dot product attention: the public op, and the fused and math variants of
// decomposed graphs.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Converts an attention. Further results of the fused variants (log-sum-exp, random state) are
/// only used by their backward, and are not defined.
LogicalResult convertAttention(NodeConverter &n) {
  AttentionParts parts{n.tensor("query"), n.tensor("key"), n.tensor("value")};
  parts.mask = n.optionalTensor(n.find("attn_bias") ? "attn_bias" : "attn_mask");
  // Grouped-query attention follows from the shapes. The other arguments only affect unused
  // results.
  n.markWithoutEffect({"enable_gqa", "compute_log_sumexp", "return_debug_mask"});
  parts.causal = n.boolean("is_causal", false);
  parts.dropout = n.number("dropout_p", 0);
  if (n.has("scale"))
    parts.scale = n.number("scale", 1);
  if (n.failed())
    return failure();
  Value result = buildAttention(n, parts);
  return n.failed() ? failure() : n.set(0, result);
}

} // namespace

void addAttentionConverters(ConverterTable &table) {
  table["aten.scaled_dot_product_attention"] = convertAttention;
  table["aten._scaled_dot_product_flash_attention_for_cpu"] = convertAttention;
  table["aten._scaled_dot_product_flash_attention"] = convertAttention;
  table["aten._scaled_dot_product_efficient_attention"] = convertAttention;
  table["aten._scaled_dot_product_cudnn_attention"] = convertAttention;
  table["aten._scaled_dot_product_attention_math"] = convertAttention;
}

} // namespace parashard::import
