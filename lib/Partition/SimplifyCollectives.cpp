// Implements ps-simplify-collectives: cancels and merges collectives, and reduces their bytes.
#include "dialects/ps/Float8.h"
#include "lib/IR/Collectives.h"
#include "lib/Partition/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::partition {
#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVESPASS
#include "lib/Partition/Passes.h.inc"

namespace {
/// Copies the phase, segment and origin of the replaced op to its replacement.
template <typename Op> Op marked(Operation *from, Op op) {
  copyMarks(from, op);
  return op;
}

/// Copies the cause of the replaced collective to its replacement.
template <typename Op> Op withCauseOf(Operation *from, Op op) {
  if (Attribute cause = from->getDiscardableAttr(kCauseMark))
    op->setDiscardableAttr(kCauseMark, cause);
  return op;
}

bool sameRun(Operation *a, Operation *b) {
  return a->getAttr(kPhaseMark) == b->getAttr(kPhaseMark) &&
         a->getAttr(kSegmentMark) == b->getAttr(kSegmentMark);
}

/// Replaces all_gather(shard_slice(x)), over the same axes and dim of an even split, by x.
struct CancelGatherOfSlice : OpRewritePattern<AllGatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AllGatherOp gather, PatternRewriter &rewriter) const override {
    auto slice = gather.getOperand().getDefiningOp<ShardSliceOp>();
    if (!slice || slice.getAxes() != gather.getAxes() || slice.getDim() != gather.getDim() ||
        slice.getOperand().getType() != gather.getType())
      return rewriter.notifyMatchFailure(gather, "operand is not a matching shard_slice");
    rewriter.replaceOp(gather, slice.getOperand());
    return success();
  }
};

/// Replaces shard_slice(all_gather(x)), over the same axes and dim, by x.
struct CancelSliceOfGather : OpRewritePattern<ShardSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ShardSliceOp slice, PatternRewriter &rewriter) const override {
    auto gather = slice.getOperand().getDefiningOp<AllGatherOp>();
    if (!gather || slice.getAxes() != gather.getAxes() || slice.getDim() != gather.getDim() ||
        gather.getOperand().getType() != slice.getType())
      return rewriter.notifyMatchFailure(slice, "operand is not a matching all_gather");
    rewriter.replaceOp(slice, gather.getOperand());
    return success();
  }
};

/// Returns true if all shards of a slice have the same number of elements.
bool isEven(ShardSliceOp slice) {
  int64_t whole = slice.getOperand().getType().getDimSize(slice.getDim());
  int64_t part = slice.getType().getDimSize(slice.getDim());
  MeshOp mesh = getMesh(slice);
  SmallVector<StringAttr> axes(slice.getAxes().getAsRange<StringAttr>());
  return whole % part == 0 && (!mesh || whole / part == mesh.getShards(axes));
}

/// Replaces an even shard_slice of a constant with equal elements by the smaller constant.
struct SliceSplat : OpRewritePattern<ShardSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ShardSliceOp slice, PatternRewriter &rewriter) const override {
    auto constant = slice.getOperand().getDefiningOp<ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat || !isEven(slice))
      return rewriter.notifyMatchFailure(slice,
                                         "operand has different elements, or shards are uneven");
    auto part = ConstantOp::create(rewriter, constant.getLoc(), splat.resizeSplat(slice.getType()));
    rewriter.replaceOp(slice, marked(slice, part));
    return success();
  }
};

/// Replaces an even shard_slice(all_reduce(x)) by reduce_scatter(x) if the slice is the only use of
/// the sum.
struct ScatterSlicedSum : OpRewritePattern<ShardSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ShardSliceOp slice, PatternRewriter &rewriter) const override {
    auto reduce = slice.getOperand().getDefiningOp<AllReduceOp>();
    if (!reduce || !reduce->hasOneUse() || reduce.getAxes() != slice.getAxes())
      return rewriter.notifyMatchFailure(
          slice, "operand is not an all_reduce over these axes with one use");
    if (!isEven(slice))
      return rewriter.notifyMatchFailure(slice, "shards are not even");
    auto scatter =
        ReduceScatterOp::create(rewriter, reduce.getLoc(), slice.getType(), reduce.getKind(),
                                reduce.getOperand(), slice.getAxes(), slice.getDim());
    rewriter.replaceOp(slice, withCauseOf(reduce, marked(slice, scatter)));
    return success();
  }
};

/// Replaces all_reduce(x) + all_reduce(y) by all_reduce(x + y) if the addition is the only use of
/// both.
struct SumOnce : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    auto lhs = add.getLhs().getDefiningOp<AllReduceOp>();
    auto rhs = add.getRhs().getDefiningOp<AllReduceOp>();
    if (!lhs || !rhs || lhs == rhs || !lhs->hasOneUse() || !rhs->hasOneUse())
      return rewriter.notifyMatchFailure(add, "not the sum of two reductions with one use");
    if (lhs.getAxes() != rhs.getAxes() || lhs.getKind() != ReductionKind::Sum ||
        rhs.getKind() != ReductionKind::Sum || !sameRun(lhs, add) || !sameRun(rhs, add))
      return rewriter.notifyMatchFailure(add, "reductions differ");
    auto sum = marked(add, AddOp::create(rewriter, add.getLoc(), add.getType(), lhs.getOperand(),
                                         rhs.getOperand()));
    auto reduce = AllReduceOp::create(rewriter, lhs.getLoc(), add.getType(), ReductionKind::Sum,
                                      sum, lhs.getAxes());
    rewriter.replaceOp(add, withCauseOf(lhs, marked(add, reduce)));
    return success();
  }
};

/// Replaces convert(sum over ranks of x) by sum over ranks of convert(x), if the conversion to a
/// narrower type and a conversion back precede an accumulation. `--gradient-reduction` adds these
/// two conversions.
struct SumNarrowTerms : OpRewritePattern<AccumulateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AccumulateOp accumulate, PatternRewriter &rewriter) const override {
    auto wide = accumulate.getValue().getDefiningOp<ConvertOp>();
    auto narrow = wide ? wide.getOperand().getDefiningOp<ConvertOp>() : ConvertOp();
    Operation *sum = narrow ? narrow.getOperand().getDefiningOp() : nullptr;
    if (!isa_and_nonnull<AllReduceOp, ReduceScatterOp>(sum) || !sum->hasOneUse() ||
        !narrow->hasOneUse() || wide.getType() != narrow.getOperand().getType())
      return rewriter.notifyMatchFailure(accumulate, "value is not a rounded sum");
    Type element = narrow.getType().getElementType();
    auto type = cast<RankedTensorType>(sum->getOperand(0).getType()).clone(element);
    rewriter.setInsertionPoint(sum);
    Value term = marked(sum, ConvertOp::create(rewriter, sum->getLoc(), type, sum->getOperand(0)));
    Operation *made = rewriter.clone(*sum);
    made->setOperand(0, term);
    made->getResult(0).setType(narrow.getType());
    rewriter.replaceOp(narrow, made->getResults());
    return success();
  }
};

/// Replaces all_gather(dequantize(x)) by dequantize(all_gather(x)), so that one byte per element is
/// sent. Applies to tensors with a single scale.
struct GatherQuantized : OpRewritePattern<AllGatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AllGatherOp gather, PatternRewriter &rewriter) const override {
    std::optional<Quantized> quantized = findQuantized(gather.getOperand());
    if (!quantized)
      return rewriter.notifyMatchFailure(gather,
                                         "operand is not a dequantized tensor with one scale");
    Location loc = gather.getLoc();
    auto type = gather.getType();
    auto [bits, scale] = *quantized;
    auto whole = AllGatherOp::create(rewriter, loc, type.clone(getElementTypeOrSelf(bits)), bits,
                                     gather.getAxes(), gather.getDim());
    Value scales =
        marked(gather, BroadcastOp::create(rewriter, loc, type.clone(getElementTypeOrSelf(scale)),
                                           scale, ArrayRef<int64_t>()));
    Value result =
        marked(gather, DequantizeOp::create(rewriter, loc, type,
                                            withCauseOf(gather, marked(gather, whole)), scales));
    rewriter.replaceOp(gather, result);
    return success();
  }
};

/// Returns true for the ops that `mergeEqual` merges. A function without such ops is skipped.
bool isSimplified(Operation &op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp, ShardSliceOp>(op);
}

/// Merges equal collectives and shard slices of one run: keeps the first of them.
void mergeEqual(func::FuncOp function) {
  DenseMap<std::pair<Value, Attribute>, SmallVector<Operation *, 1>> known;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (!isSimplified(op))
      continue;
    auto &equals = known[{op.getOperand(0), op.getAttr("axes")}];
    auto same = llvm::find_if(equals, [&](Operation *other) {
      return other->getName() == op.getName() && sameRun(other, &op) &&
             other->getResultTypes() == op.getResultTypes() &&
             other->getPropertiesAsAttribute() == op.getPropertiesAsAttribute();
    });
    if (same == equals.end()) {
      equals.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*same);
    op.erase();
  }
}

struct SimplifyCollectivesPass : impl::SimplifyCollectivesPassBase<SimplifyCollectivesPass> {
  void runOnOperation() override {
    RewritePatternSet set(&getContext());
    set.add<CancelGatherOfSlice, CancelSliceOfGather, SliceSplat, ScatterSlicedSum, SumOnce,
            SumNarrowTerms, GatherQuantized>(&getContext());
    FrozenRewritePatternSet patterns(std::move(set));
    GreedyRewriteConfig config;
    config.enableFolding(false);
    config.enableConstantCSE(false);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock() || llvm::none_of(function.getOps(), isSimplified))
        continue;
      mergeEqual(function);
      if (failed(applyPatternsGreedily(function, patterns, config)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace parashard::partition
