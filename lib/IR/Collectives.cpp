// Stores descriptions of collectives as an attribute of a module, and reads them back.
#include "lib/IR/Collectives.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::ir {

bool isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp, PermuteOp>(op);
}

void setCause(Operation *collective, const Twine &what, const Twine &why) {
  Builder b(collective->getContext());
  collective->setDiscardableAttr(kCauseMark,
                                 b.getArrayAttr({b.getStringAttr(what), b.getStringAttr(why)}));
}

//===----------------------------------------------------------------------===//
// Conversion to and from attributes
//===----------------------------------------------------------------------===//

static DictionaryAttr toAttribute(const ExplainedCollective &row, Builder b) {
  SmallVector<StringRef> locations(row.locations.begin(), row.locations.end());
  auto field = [&](StringRef name, const std::string &text) {
    return b.getNamedAttr(name, b.getStringAttr(text));
  };
  return b.getDictionaryAttr({field("kind", row.kind), field("axes", row.axes),
                              field("when", row.when), field("what", row.what),
                              field("why", row.why),
                              b.getNamedAttr("locations", b.getStrArrayAttr(locations)),
                              b.getNamedAttr("bytes", b.getDenseI64ArrayAttr(row.bytes))});
}

void recordCollectives(ModuleOp module, ArrayRef<ExplainedCollective> collectives) {
  Builder b(module.getContext());
  SmallVector<Attribute> rows;
  for (const ExplainedCollective &row : collectives)
    rows.push_back(toAttribute(row, b));
  module->setAttr(kCollectivesMark, b.getArrayAttr(rows));
}

static ExplainedCollective fromAttribute(DictionaryAttr row) {
  auto field = [&](StringRef name) {
    auto text = row.getAs<StringAttr>(name);
    return text ? text.str() : std::string();
  };
  ExplainedCollective result{
      field("kind"), field("axes"), field("when"), field("what"), field("why"), {}, {}};
  auto locations = row.getAs<ArrayAttr>("locations");
  auto bytes = row.getAs<DenseI64ArrayAttr>("bytes");
  if (locations && bytes && locations.size() == size_t(bytes.size()))
    for (auto [location, size] : llvm::zip_equal(locations, bytes.asArrayRef()))
      if (auto text = dyn_cast<StringAttr>(location)) {
        result.locations.push_back(text.str());
        result.bytes.push_back(size);
      }
  return result;
}

std::optional<std::vector<ExplainedCollective>> getCollectives(ModuleOp module) {
  auto rows = module->getAttrOfType<ArrayAttr>(kCollectivesMark);
  if (!rows)
    return std::nullopt;
  std::vector<ExplainedCollective> result;
  for (auto row : rows.getAsRange<DictionaryAttr>())
    result.push_back(fromAttribute(row));
  return result;
}

} // namespace parashard::ir
