// Computes how an op's factors are split, from the shardings of its operands and results.
#include "lib/Sharding/OpSharding.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

SmallVector<int64_t> getShape(const ShardingRule &rule, const TensorFactors &tensor) {
  SmallVector<int64_t> shape;
  for (const DimFactors &dim : tensor) {
    int64_t size = 1;
    for (unsigned factor : dim)
      size *= rule.factors[factor].size;
    shape.push_back(size);
  }
  return shape;
}

SmallVector<Split> projectToFactors(const ShardingRule &rule, const TensorFactors &tensor,
                                    const TensorSplits &splits, const MeshShape &mesh,
                                    SmallVectorImpl<StringAttr> *dropped) {
  SmallVector<Split> factors;
  for (const RuleFactor &factor : rule.factors)
    factors.push_back(wholeSplit(factor.size));
  for (auto [dim, split] : llvm::zip(tensor, splits)) {
    SmallVector<int64_t> sizes;
    for (unsigned factor : dim)
      sizes.push_back(rule.factors[factor].size);
    for (auto [factor, part] : llvm::zip(dim, cut(split, sizes, mesh, dropped)))
      factors[factor] = part;
  }
  return factors;
}

TensorSplits projectToTensor(const ShardingRule &rule, const TensorFactors &tensor,
                             ArrayRef<Split> factors, const MeshShape &mesh) {
  TensorSplits splits;
  for (const DimFactors &dim : tensor) {
    SmallVector<Split> parts;
    for (unsigned factor : dim)
      parts.push_back(factors[factor]);
    splits.push_back(join(parts, mesh));
  }
  return splits;
}

static bool isReplicated(ArrayRef<ShardingAttr> shardings, const MeshShape &mesh) {
  return llvm::all_of(shardings,
                      [&](ShardingAttr sharding) { return mesh.isReplicated(sharding); });
}

namespace {
/// Runs the three steps of computeOpSharding for one op.
class Solver {
public:
  Solver(const ShardingRule &rule, ArrayRef<ShardingAttr> held, ArrayRef<ShardingAttr> marked,
         const MeshShape &mesh)
      : rule(rule), held(held), marked(marked), mesh(mesh), inResult(rule.factors.size()) {
    for (const RuleFactor &factor : rule.factors)
      solution.factors.push_back(wholeSplit(factor.size));
    for (const TensorFactors &result : rule.results)
      for (const DimFactors &dim : result)
        for (unsigned factor : dim)
          inResult.set(factor);
    kept.resize(rule.operands.size());
  }

  OpSharding run() {
    if (isReplicated(held, mesh) && isReplicated(marked, mesh))
      return runReplicated();
    keepPartialOperands();
    splitOperandOnlyFactors();
    splitResultFactors();
    buildShardings();
    return std::move(solution);
  }

private:
  OpSharding runReplicated() {
    for (const TensorFactors &tensor : rule.operands)
      solution.operands.push_back(mesh.getReplicated(tensor.size()));
    for (const TensorFactors &tensor : rule.results)
      solution.results.push_back(mesh.getReplicated(tensor.size()));
    return std::move(solution);
  }

  bool isUsed(StringAttr axis) const { return llvm::is_contained(used, axis); }

  bool isPartialBySum(unsigned operand, StringAttr axis) const {
    return held[operand] && llvm::any_of(held[operand].getPartial(), [&](PartialAttr p) {
             return p.getAxis() == axis && p.getKind() == ReductionKind::Sum;
           });
  }

  /// Returns the linear group that consists of exactly the operands that are partial by sum over
  /// `axis`. Returns null if there is none.
  const SmallVector<unsigned, 2> *findGroup(StringAttr axis) const {
    for (const SmallVector<unsigned, 2> &group : rule.linear) {
      bool matches = true;
      for (unsigned i = 0; i < held.size() && matches; ++i)
        matches = isPartialBySum(i, axis) == llvm::is_contained(group, i);
      if (matches && !group.empty())
        return &group;
    }
    return nullptr;
  }

  void keepPartialOperands() {
    for (AxisAttr axis : mesh.getAxes()) {
      const SmallVector<unsigned, 2> *group = findGroup(axis.getName());
      if (!group || axis.getDevices() == 1)
        continue;
      used.push_back(axis.getName());
      auto partial = PartialAttr::get(mesh.getContext(), axis.getName(), ReductionKind::Sum);
      resultPartial.push_back(partial);
      for (unsigned operand : *group)
        kept[operand].push_back(partial);
    }
  }

  /// Returns the split over the axes that both splits have. Returns a whole split if `a` and `b`
  /// split over these axes in different ways.
  Split getCommon(const Split &a, const Split &b) const {
    if (a == b)
      return a;
    auto over = [&](const Split &split, const Split &other) {
      SmallVector<StringAttr> axes = getAxes(other);
      return simplify(
          without(split, [&](StringAttr axis) { return !llvm::is_contained(axes, axis); }), mesh);
    };
    Split common = over(a, b);
    int64_t size = 1;
    for (const SubFactor &factor : a)
      size *= factor.size;
    return common == over(b, a) ? common : wholeSplit(size);
  }

  void splitOperandOnlyFactors() {
    SmallVector<std::optional<Split>> agreed(rule.factors.size());
    for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
      SmallVector<Split> factors =
          projectToFactors(rule, tensor, getSplits(held[i], getShape(rule, tensor), mesh), mesh);
      for (const DimFactors &dim : tensor)
        for (unsigned factor : dim) {
          Split split = simplify(factors[factor], mesh);
          agreed[factor] = agreed[factor] ? getCommon(*agreed[factor], split) : split;
        }
    }
    for (auto [i, factor] : llvm::enumerate(rule.factors)) {
      if (inResult[i] || factor.kind == RuleFactor::Kind::Whole || !agreed[i])
        continue;
      SmallVector<StringAttr> axes = getAxes(*agreed[i]);
      if (llvm::any_of(axes, [&](StringAttr axis) { return isUsed(axis); }))
        continue;
      solution.factors[i] = *agreed[i];
      llvm::append_range(used, axes);
      if (factor.kind == RuleFactor::Kind::Reduction)
        for (StringAttr axis : axes)
          resultPartial.push_back(PartialAttr::get(mesh.getContext(), axis, factor.reduction));
    }
  }

  void splitResultFactors() {
    llvm::SmallBitVector decided(rule.factors.size());
    for (auto [i, tensor] : llvm::enumerate(rule.results)) {
      ShardingAttr mark = i < marked.size() ? marked[i] : ShardingAttr();
      SmallVector<Split> factors =
          projectToFactors(rule, tensor, getSplits(mark, getShape(rule, tensor), mesh), mesh);
      for (const DimFactors &dim : tensor)
        for (unsigned factor : dim) {
          if (decided[factor] || rule.factors[factor].kind == RuleFactor::Kind::Whole)
            continue;
          decided.set(factor);
          Split split = without(factors[factor], [&](StringAttr axis) { return isUsed(axis); });
          llvm::append_range(used, getAxes(split));
          solution.factors[factor] = simplify(split, mesh);
        }
    }
  }

  void buildShardings() {
    for (auto [i, tensor] : llvm::enumerate(rule.operands))
      solution.operands.push_back(
          getShardingAttr(projectToTensor(rule, tensor, solution.factors, mesh), kept[i], mesh));
    for (const TensorFactors &tensor : rule.results)
      solution.results.push_back(getShardingAttr(
          projectToTensor(rule, tensor, solution.factors, mesh), resultPartial, mesh));
  }

  const ShardingRule &rule;
  ArrayRef<ShardingAttr> held;
  ArrayRef<ShardingAttr> marked;
  const MeshShape &mesh;
  llvm::SmallBitVector inResult;
  SmallVector<StringAttr> used;
  SmallVector<PartialAttr> resultPartial;
  SmallVector<SmallVector<PartialAttr>> kept;
  OpSharding solution;
};
} // namespace

OpSharding computeOpSharding(const ShardingRule &rule, ArrayRef<ShardingAttr> operands,
                             ArrayRef<ShardingAttr> results, const MeshShape &mesh) {
  SmallVector<ShardingAttr> held(operands.begin(), operands.end());
  held.resize(rule.operands.size());
  return Solver(rule, held, results, mesh).run();
}

static ShardingAttr getReplicated(Value value, const MeshShape &mesh) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? mesh.getReplicated(type.getRank()) : ShardingAttr();
}

OpSharding computeOpSharding(Operation *op, ArrayRef<ShardingAttr> operands,
                             ArrayRef<ShardingAttr> results, const MeshShape &mesh,
                             llvm::function_ref<OpSharding(const ShardingRule &)> compute) {
  OpSharding sharding;
  if (isReplicated(operands, mesh) && isReplicated(results, mesh)) { // the rule is not needed
    for (Value operand : op->getOperands())
      sharding.operands.push_back(getReplicated(operand, mesh));
    for (Value result : op->getResults())
      sharding.results.push_back(getReplicated(result, mesh));
    return sharding;
  }
  ShardingRule rule = cast<ShardingOpInterface>(op).getShardingRule();
  sharding = compute ? compute(rule) : computeOpSharding(rule, operands, results, mesh);
  sharding.operands.resize(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (!isa<RankedTensorType>(operand.getType()))
      sharding.operands[i] = {};
  return sharding;
}

OpSharding computeOpSharding(Operation *op, const MeshShape &mesh) {
  SmallVector<ShardingAttr> operands, results;
  for (Value operand : op->getOperands())
    operands.push_back(getSharding(operand));
  for (Value result : op->getResults())
    results.push_back(getSharding(result));
  return computeOpSharding(op, operands, results, mesh);
}

bool isReplicated(Operation *op, const MeshShape &mesh) {
  auto whole = [&](Value value) { return mesh.isReplicated(getSharding(value)); };
  return llvm::all_of(op->getOperands(), whole) && llvm::all_of(op->getResults(), whole);
}

} // namespace parashard::sharding
