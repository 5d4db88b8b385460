// Unrolls micro-batches, and starts collectives in buckets.
#include "lib/Pipeline/Programs.h"
#include "dialects/ps/Entries.h"
#include "lib/IR/Stages.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::pipeline {

static bool isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op);
}

ProgramBuilder::ProgramBuilder(ModuleOp module, StringRef name, int64_t pp, StringRef entry,
                               int64_t bucketBytes)
    : builder(module.getContext()), bucketBytes(bucketBytes), pipeline(getPipelineAxis(module)),
      coordinates(getPipelineSize(module)) {
  builder.setInsertionPointToEnd(module.getBody());
  auto program = rank::ProgramOp::create(builder, module.getLoc(), name, pp, entry);
  builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
}

void ProgramBuilder::markInferenceEntry() {
  builder.getBlock()->getParentOp()->setAttr(kEntryMark, builder.getUnitAttr());
}

void ProgramBuilder::addSection(StringRef entry) {
  rank::SectionOp::create(builder, builder.getUnknownLoc(), entry);
}

//===----------------------------------------------------------------------===//
// Micro-batches
//===----------------------------------------------------------------------===//

Value ProgramBuilder::getMicroBatch(Location loc, int64_t microBatch) {
  Value &known = microBatches[microBatch];
  if (!known)
    known = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(microBatch));
  return known;
}

/// Copies the attributes of an argument or a result to `op`, except the name, sharding and global
/// type.
static void copyMarks(DictionaryAttr marks, Operation *op) {
  for (NamedAttribute mark : marks ? marks.getValue() : ArrayRef<NamedAttribute>())
    if (mark.getName() != kNameMark && mark.getName() != kShardingMark &&
        mark.getName() != kGlobalMark)
      op->setAttr(mark.getName(), mark.getValue());
}

rank::InputOp ProgramBuilder::getInput(func::FuncOp stage, unsigned i, int64_t microBatch) {
  BlockArgument arg = stage.getArgument(i);
  auto name = stage.getArgAttrOfType<StringAttr>(i, kNameMark);
  if (!name) // a cotangent gets the name of its output
    name = stage.getArgAttrOfType<StringAttr>(i, kCotangentMark);
  if (!name)
    name = builder.getStringAttr("input" + std::to_string(i));
  auto sharding = stage.getArgAttrOfType<ShardingAttr>(i, kShardingMark);
  rank::InputOp &input = inputs[{name, microBatch}];
  if (input && input.getType() == arg.getType() && input.getShardingAttr() == sharding)
    return input;
  input = rank::InputOp::create(builder, arg.getLoc(), arg.getType(), name,
                                builder.getI64IntegerAttr(microBatch),
                                stage.getArgAttrOfType<TypeAttr>(i, kGlobalMark), sharding);
  copyMarks(stage.getArgAttrDict(i), input);
  return input;
}

/// Maps an argument of a stage function to an input, or to the index of the micro-batch.
void ProgramBuilder::bind(func::FuncOp stage, unsigned i, int64_t microBatch, IRMapping &values) {
  BlockArgument arg = stage.getArgument(i);
  if (values.contains(arg))
    return;
  if (isa<RankedTensorType>(arg.getType()))
    values.map(arg, getInput(stage, i, microBatch));
  else
    values.map(arg, getMicroBatch(arg.getLoc(), microBatch));
}

void ProgramBuilder::addPart(func::FuncOp stage, int64_t microBatch, IRMapping &values,
                             llvm::function_ref<bool(Operation *)> take) {
  for (Operation &op : stage.getBody().front().without_terminator()) {
    if (isa<ReadOp>(op) || !take(&op))
      continue; // a read is cloned with its all-gather
    if (isCollective(&op)) {
      builder.clone(*op.getOperand(0).getDefiningOp(), values);
      addToBucket(&op, bucketBytes);
      continue;
    }
    startBuckets(values);
    waitFor(&op);
    for (Value operand : op.getOperands())
      if (auto arg = dyn_cast<BlockArgument>(operand))
        bind(stage, arg.getArgNumber(), microBatch, values);
    Operation *built = builder.clone(op, values);
    if (isa<rank::RunOp>(built))
      built->setAttr(kMicroBatchMark, builder.getI64IntegerAttr(microBatch));
  }
  buckets.clear();
  bucketOf.clear();
}

void ProgramBuilder::addOutputs(func::FuncOp stage, int64_t microBatch, IRMapping &values) {
  Operation *end = stage.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    if (stage.getResultAttr(i, kValueMark))
      continue; // sent to another stage
    if (auto arg = dyn_cast<BlockArgument>(value))
      bind(stage, arg.getArgNumber(), microBatch, values);
    auto name = stage.getResultAttrOfType<StringAttr>(i, kNameMark);
    auto output = rank::OutputOp::create(
        builder, end->getLoc(), name ? name : builder.getStringAttr("output" + std::to_string(i)),
        builder.getI64IntegerAttr(microBatch), values.lookup(value),
        stage.getResultAttrOfType<TypeAttr>(i, kGlobalMark),
        stage.getResultAttrOfType<ShardingAttr>(i, kShardingMark));
    copyMarks(stage.getResultAttrDict(i), output);
  }
}

void ProgramBuilder::addMicroBatch(func::FuncOp stage, int64_t microBatch) {
  IRMapping values;
  addPart(stage, microBatch, values, [](Operation *) { return true; });
  addOutputs(stage, microBatch, values);
}

Value ProgramBuilder::addSend(Location loc, Value value, const Message &message) {
  return rank::SendOp::create(builder, loc, value, message.to, message.getQueue(), message.value,
                              message.microBatch);
}

std::pair<Value, Value> ProgramBuilder::addReceive(Location loc, const Message &message) {
  auto op =
      rank::RecvOp::create(builder, loc, message.type, rank::TokenType::get(builder.getContext()),
                           message.from, message.getQueue(), message.value, message.microBatch);
  return {op.getResult(), op.getToken()};
}

void ProgramBuilder::addWait(Location loc, Value token) {
  rank::WaitOp::create(builder, loc, token);
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

/// Returns true if two collectives may share a bucket.
static bool fitTogether(Operation *a, Operation *b) {
  return a->getName() == b->getName() && a->getAttr("axes") == b->getAttr("axes") &&
         a->getAttr("kind") == b->getAttr("kind") &&
         getElementTypeOrSelf(a->getOperand(0).getType()) ==
             getElementTypeOrSelf(b->getOperand(0).getType());
}

void ProgramBuilder::addToBucket(Operation *collective, int64_t maxBytes) {
  int64_t bytes = getByteSize(collective->getOperand(0).getType());
  // A collective on the result of another collective cannot share the bucket of the other one,
  // because the result exists only after the wait.
  bool isChained = bucketOf.contains(collective->getOperand(0).getDefiningOp());
  for (Bucket &bucket : llvm::reverse(buckets)) {
    if (isChained || isOverPipeline(collective))
      // A reduction over the pipeline axis has its own bucket, because different coordinates take
      // part in different reductions.
      break;
    if (!fitTogether(bucket.collectives.front(), collective))
      continue;
    if (bucket.start || bucket.bytes + bytes > maxBytes)
      break; // the last matching bucket is full
    bucket.collectives.push_back(collective);
    bucket.bytes += bytes;
    bucketOf[collective] = &bucket - buckets.data();
    return;
  }
  bucketOf[collective] = buckets.size();
  buckets.emplace_back();
  buckets.back().collectives.push_back(collective);
  buckets.back().bytes = bytes;
}

bool ProgramBuilder::isOverPipeline(Operation *collective) const {
  return pipeline && llvm::is_contained(collective->getAttrOfType<ArrayAttr>("axes"), pipeline);
}

void ProgramBuilder::start(Bucket &bucket, IRMapping &values) {
  Operation *first = bucket.collectives.front();
  for (Operation *op : bucket.collectives)
    waitFor(op);
  SmallVector<Value> operands, results;
  SmallVector<Type> types;
  SmallVector<int64_t> dims;
  for (Operation *op : bucket.collectives) {
    operands.push_back(values.lookup(op->getOperand(0)));
    results.push_back(op->getResult(0));
    types.push_back(op->getResult(0).getType());
    if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
      dims.push_back(dim.getInt());
  }
  auto axes = first->getAttrOfType<ArrayAttr>("axes");
  DenseI64ArrayAttr members;
  std::string queue = rank::getQueueName(axes.getValue());
  if (isa<AllGatherOp>(first))
    queue += ".gather"; // so that all-gathers of parameters do not wait for gradients
  if (isOverPipeline(first)) {
    members = first->getAttrOfType<DenseI64ArrayAttr>(kCoordinatesMark);
    if (!members)
      members = builder.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq<int64_t>(0, coordinates)));
    axes = {};
    queue = "shared";
  }
  bucket.start = rank::StartOp::create(
      builder, first->getLoc(), types, rank::TokenType::get(builder.getContext()),
      builder.getStringAttr(first->getName().stripDialect()), operands,
      first->getAttrOfType<ReductionKindAttr>("kind"), axes, members,
      dims.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(dims),
      builder.getStringAttr(queue));
  if (Attribute reduced = first->getAttr(kReducedMark))
    bucket.start->setAttr(kReducedMark, reduced);
  values.map(results, bucket.start.getResults());
}

void ProgramBuilder::startBuckets(IRMapping &values) {
  for (Bucket &bucket : buckets)
    if (!bucket.start)
      start(bucket, values);
}

void ProgramBuilder::wait(Bucket &bucket) {
  if (bucket.waited)
    return;
  for (Bucket &earlier : buckets) {
    if (&earlier == &bucket)
      break;
    if (earlier.start && earlier.start.getQueue() == bucket.start.getQueue())
      wait(earlier);
  }
  bucket.waited = true;
  rank::WaitOp::create(builder, bucket.start.getLoc(), bucket.start.getToken());
}

void ProgramBuilder::waitFor(Operation *op) {
  for (Value operand : op->getOperands())
    if (auto it = bucketOf.find(operand.getDefiningOp()); it != bucketOf.end())
      wait(buckets[it->second]);
}

//===--- starting early ---------------------------------------------------===//

/// Returns the variables that an op of a program may write.
static SmallVector<StringAttr> getWrittenVariables(Operation *op) {
  SmallVector<StringAttr> result;
  if (auto run = dyn_cast<rank::RunOp>(op))
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
      result.push_back(symbol.getAttr());
  if (auto write = dyn_cast<WriteOp>(op))
    result.push_back(write.getVariableAttr().getAttr());
  return result;
}

void ProgramBuilder::waitForVariables(Operation *op) {
  SmallVector<StringAttr> written = getWrittenVariables(op);
  for (Bucket &bucket : buckets)
    for (Operation *collective : bucket.collectives)
      if (auto read = collective->getOperand(0).getDefiningOp<ReadOp>())
        if (bucket.start && llvm::is_contained(written, read.getVariableAttr().getAttr()))
          wait(bucket);
}

void ProgramBuilder::numberBuckets() {
  bucketOf.clear();
  for (auto [i, bucket] : llvm::enumerate(buckets))
    for (Operation *collective : bucket.collectives)
      bucketOf[collective] = i;
}

/// Starts collectives of gradients early, each after the last run that may write its gradient.
/// Fills buckets in the order of these runs, so that the first buckets are sent while backward
/// continues. A bucket has at most max(1/4 of the bytes of all these collectives, 1 MiB), and at
/// most `bucketBytes`.
void ProgramBuilder::startEarly(func::FuncOp stage, IRMapping &values) {
  Block *block = builder.getInsertionBlock();
  if (!block->getOps<rank::SectionOp>().empty())
    return;
  llvm::DenseMap<StringAttr, std::pair<int64_t, Operation *>> lastWriter; // index and op
  for (auto [index, op] : llvm::enumerate(*block))
    for (StringAttr variable : getWrittenVariables(&op))
      lastWriter[variable] = {int64_t(index), &op};
  struct Early {
    int64_t index, order;
    Operation *writer, *collective;
  };
  SmallVector<Early> early;
  llvm::DenseSet<StringAttr> updated;
  int64_t total = 0;
  for (Operation &op : stage.getBody().front()) {
    for (StringAttr variable : getWrittenVariables(&op))
      updated.insert(variable);
    auto read = isCollective(&op) ? op.getOperand(0).getDefiningOp<ReadOp>() : ReadOp();
    if (!read || isOverPipeline(&op) || read->getNumOperands() > 0 ||
        updated.contains(read.getVariableAttr().getAttr()))
      continue;
    if (auto [index, writer] = lastWriter.lookup(read.getVariableAttr().getAttr()); writer) {
      early.push_back({index, int64_t(early.size()), writer, &op});
      total += getByteSize(read.getType());
    }
  }
  llvm::sort(early, [](const Early &a, const Early &b) {
    return std::tie(a.index, a.order) < std::tie(b.index, b.order);
  });
  int64_t maxBytes = std::min(bucketBytes, std::max<int64_t>(total / 4, 1 << 20));
  llvm::DenseMap<Operation *, Early> lastOf; // last member of a bucket, by its first collective
  for (const Early &candidate : early) {
    addToBucket(candidate.collective, maxBytes);
    Bucket &bucket = buckets[bucketOf[candidate.collective]];
    bucket.after = candidate.writer;
    lastOf[bucket.collectives.front()] = candidate;
  }
  llvm::sort(buckets, [&](const Bucket &a, const Bucket &b) {
    const Early &x = lastOf[a.collectives.front()], &y = lastOf[b.collectives.front()];
    return std::tie(x.index, x.order) < std::tie(y.index, y.order);
  });
  numberBuckets();
  Operation *last = nullptr;
  for (Bucket &bucket : buckets) {
    builder.setInsertionPointAfter(last && bucket.after->isBeforeInBlock(last) ? last
                                                                               : bucket.after);
    for (Operation *collective : bucket.collectives)
      builder.clone(*collective->getOperand(0).getDefiningOp(), values);
    start(bucket, values);
    last = bucket.start;
  }
  builder.setInsertionPointToEnd(block);
}

void ProgramBuilder::addUpdate(func::FuncOp stage) {
  IRMapping values;
  startEarly(stage, values);
  auto isEarly = [&](Operation *op) { return bucketOf.contains(op); };
  for (Operation &op : stage.getBody().front().without_terminator()) {
    if (isEarly(&op) ||
        (isa<ReadOp>(op) && !op.use_empty() && llvm::all_of(op.getUsers(), isEarly)))
      continue;
    if (isCollective(&op)) {
      addToBucket(&op, bucketBytes);
      continue;
    }
    if (isa<rank::RunOp>(op))
      startBuckets(values);
    waitFor(&op);
    waitForVariables(&op);
    builder.clone(op, values);
  }
  startBuckets(values);
  for (Bucket &bucket : buckets)
    wait(bucket);
  buckets.clear();
  bucketOf.clear();
}

} // namespace parashard::pipeline
