// Verifies asynchronous collectives, messages and waits.
#include "dialects/rank/Rank.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::rank;

static LogicalResult verifyAxes(StartOp op) {
  ps::MeshOp mesh = ps::getMesh(op);
  llvm::StringSet<> seen;
  for (StringAttr axis : op.getAxisNames()) {
    if (!seen.insert(axis.getValue()).second)
      return op.emitOpError("(start_c3) axis ") << axis << " occurs twice";
    if (mesh && mesh.getAxisSize(axis) == 0)
      return op.emitOpError("(start_c3) the mesh has no axis ") << axis;
  }
  return success();
}

static LogicalResult verifyMembers(StartOp op) {
  ArrayRef<int64_t> members = op.getOverPp().value_or(ArrayRef<int64_t>());
  if (op.getAxes().has_value() == op.getOverPp().has_value())
    return op.emitOpError(
        "(start_c3) needs either axes or over_pp (pipeline coordinates), not both");
  for (auto [i, member] : llvm::enumerate(members))
    if (member < 0 || member >= getPipelineSize(op) || (i > 0 && member <= members[i - 1]))
      return op.emitOpError("(start_c3) runs over pipeline coordinates ")
             << members << "; expected ascending coordinates below " << getPipelineSize(op);
  if (op.getOverPp() && !llvm::is_contained(members, op->getParentOfType<ProgramOp>().getPp()))
    return op.emitOpError("(start_c3) runs over pipeline coordinates ")
           << members << ", which lack the program's own coordinate "
           << op->getParentOfType<ProgramOp>().getPp();
  return success();
}

SmallVector<StringAttr> StartOp::getAxisNames() {
  ArrayAttr axes = getAxesAttr();
  return axes ? llvm::to_vector(axes.getAsRange<StringAttr>()) : SmallVector<StringAttr>();
}

/// Verifies the dims of a reduce_scatter or all_gather. For each operand, along the operand's entry
/// in `dims`: size of the full tensor = size of a shard x number of shards.
static LogicalResult verifyDims(StartOp op) {
  ps::MeshOp mesh = ps::getMesh(op);
  ArrayRef<int64_t> dims = op.getDims().value_or(ArrayRef<int64_t>());
  bool isGather = op.getCollective() == "all_gather";
  int64_t shards = mesh ? mesh.getShards(op.getAxisNames()) : 0;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    auto from = cast<RankedTensorType>(op.getOperands()[i].getType());
    auto to = cast<RankedTensorType>(op.getResults()[i].getType());
    RankedTensorType whole = isGather ? to : from, part = isGather ? from : to;
    if (dim < 0 || dim >= part.getRank())
      return op.emitOpError("(start_c5) dim ") << dim << " is out of range for " << part;
    SmallVector<int64_t> expected(part.getShape());
    expected[dim] *= shards;
    if (mesh && part.clone(expected) != whole)
      return op.emitOpError("(start_c5) ") << whole << " does not consist of " << shards
                                           << " parts of " << part << " along dim " << dim;
  }
  return success();
}

LogicalResult StartOp::verify() {
  StringRef collective = getCollective();
  bool reduces = collective == "all_reduce" || collective == "reduce_scatter";
  if (!reduces && collective != "all_gather")
    return emitOpError("(start_c1) collective is \"")
           << collective << "\", expected all_reduce, reduce_scatter or all_gather";
  if (reduces && !getKind())
    return emitOpError("(start_c1) \"") << collective << "\" needs a kind (sum, max, min)";
  if (getOperands().size() != getResults().size())
    return emitOpError("(start_c2) has ")
           << describeCount(getOperands().size(), "operand") << " and "
           << describeCount(getResults().size(), "result");
  if (collective == "all_reduce" && TypeRange(getOperands()) != TypeRange(getResults()))
    return emitOpError("(start_c2) all_reduce has operands of ")
           << getOperands().getTypes() << " and results of " << getResults().getTypes();
  if (getOverPp() && collective != "all_reduce")
    return emitOpError("(start_c1) only all_reduce supports over_pp, not \"") << collective << "\"";
  if (failed(verifyAxes(*this)) || failed(verifyMembers(*this)))
    return failure();
  size_t dims = getDims() ? getDims()->size() : 0;
  size_t expected = collective == "all_reduce" ? 0 : getOperands().size();
  if (dims != expected)
    return emitOpError("(start_c4) attribute 'dims' has ")
           << dims << " entries, expected " << expected;
  return verifyDims(*this);
}

LogicalResult WaitOp::verify() {
  for (Operation *user : getToken().getUsers())
    if (user != *this && isa<WaitOp>(user))
      return emitOpError("(wait_c1) the token has several waits");
  return success();
}

/// Verifies that the peer of a message is another pipeline coordinate.
template <typename Op> static LogicalResult verifyPeer(Op op, StringRef label) {
  int64_t peer = op.getPp(), own = op->template getParentOfType<ProgramOp>().getPp();
  if (peer >= 0 && peer < getPipelineSize(op) && peer != own)
    return success();
  return op.emitOpError("(") << label << ") the peer is pipeline coordinate " << peer
                             << "; expected 0 to " << getPipelineSize(op) - 1 << ", but not " << own
                             << " (the program itself)";
}

LogicalResult SendOp::verify() { return verifyPeer(*this, "send_c1"); }
LogicalResult RecvOp::verify() { return verifyPeer(*this, "recv_c1"); }
