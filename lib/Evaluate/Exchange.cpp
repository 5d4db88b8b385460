// Implements the rendezvous of pipeline coordinates.
#include "lib/Evaluate/Exchange.h"
#include "lib/Evaluate/Collectives.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace parashard::evaluate {

FailureOr<Exchange::Number> Exchange::start(Operation *op, StringRef queue,
                                            ArrayRef<int64_t> members, int64_t coordinate,
                                            std::vector<PerRank> values) {
  if (!llvm::is_contained(members, coordinate))
    return op->emitOpError() << "has members on pipeline coordinates " << members << "; coordinate "
                             << coordinate << " starts it but is not a member";
  QueueKey key{queue.str(), members.vec()};
  std::vector<Number> &known = numbers[key];
  size_t n = started[{key, coordinate}]++;
  if (n == known.size()) {
    known.push_back(rendezvousList.size());
    rendezvousList.push_back({queue.str(), members.vec(), {}});
  }
  rendezvousList[known[n]].parts[coordinate] = {op, std::move(values)};
  queues[{coordinate, queue.str()}].push_back(known[n]);
  return known[n];
}

bool Exchange::isOldest(Number rendezvous, int64_t member) const {
  auto queue = queues.find({member, rendezvousList[rendezvous].queue});
  return queue != queues.end() && !queue->second.empty() && queue->second.front() == rendezvous;
}

bool Exchange::canEnd(Number rendezvous) const {
  return llvm::all_of(rendezvousList[rendezvous].members,
                      [&](int64_t member) { return isOldest(rendezvous, member); });
}

//===----------------------------------------------------------------------===//
// Matching of members
//===----------------------------------------------------------------------===//

/// Describes the properties of an op that must be equal on all members. For a send or receive, this
/// is the message. For a collective, these are the kind, the types and the reduced variable.
static std::string describeCommon(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto message = [&](auto o, Type type) {
    os << "value " << o.getValue() << " of micro-batch " << o.getMicroBatch() << ", " << type;
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](rank::SendOp o) { message(o, o.getOperand().getType()); })
      .Case([&](rank::RecvOp o) { message(o, o.getResult().getType()); })
      .Default([&](Operation *o) {
        if (auto start = dyn_cast<rank::StartOp>(o))
          os << start.getCollective();
        else
          os << o->getName().stripDialect();
        if (auto kind = o->getAttrOfType<ps::ReductionKindAttr>("kind"))
          os << " " << ps::stringifyReductionKind(kind.getValue());
        if (auto name = o->getAttrOfType<StringAttr>(kReducedMark))
          os << " of '" << name.getValue() << "'";
        os << " (operands " << o->getOperandTypes() << ")";
      });
  return text;
}

/// Returns true if two ops are the two ends of one message, or the same collective.
static bool fitTogether(Operation *a, Operation *b) {
  bool isMessage = isa<rank::SendOp>(a) || isa<rank::RecvOp>(a);
  bool isPair = isMessage ? (isa<rank::SendOp>(a) && isa<rank::RecvOp>(b)) ||
                                (isa<rank::RecvOp>(a) && isa<rank::SendOp>(b))
                          : a->getName() == b->getName();
  return isPair && describeCommon(a) == describeCommon(b);
}

static InFlightDiagnostic refuse(int64_t coordinate, Operation *op, int64_t peer,
                                 Operation *peerOp) {
  InFlightDiagnostic error =
      op->emitOpError() << "does not match its counterpart '" << peerOp->getName()
                        << "': pipeline coordinate " << coordinate << " has " << describeCommon(op)
                        << "; coordinate " << peer << " has " << describeCommon(peerOp);
  error.attachNote(peerOp->getLoc()) << "counterpart here";
  return error;
}

LogicalResult Exchange::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto &[key, queue] : queues) {
      if (queue.empty() || !canEnd(queue.front()))
        continue;
      Rendezvous &rendezvous = rendezvousList[queue.front()];
      auto &[first, part] = *rendezvous.parts.begin();
      for (auto &[coordinate, other] : llvm::drop_begin(rendezvous.parts))
        if (!fitTogether(part.op, other.op))
          return refuse(coordinate, other.op, first, part.op);
      for (int64_t member : rendezvous.members)
        queues[{member, rendezvous.queue}].pop_front();
      rendezvous.isComplete = moved = true;
    }
  }
  return success();
}

std::string Exchange::describeMissing(Number number) const {
  const Rendezvous &rendezvous = rendezvousList[number];
  for (int64_t member : rendezvous.members)
    if (!rendezvous.parts.contains(member))
      return "pipeline coordinate " + std::to_string(member) + " never joins";
  for (int64_t member : rendezvous.members)
    if (!isOldest(number, member))
      return "an earlier operation in its queue never completes on pipeline coordinate " +
             std::to_string(member);
  return "ready to complete";
}

std::vector<PerRank> Exchange::reduce(Number number, ps::ReductionKind kind) const {
  const std::map<int64_t, Part> &parts = rendezvousList[number].parts;
  const std::vector<PerRank> &first = parts.begin()->second.values;
  std::vector<PerRank> results(first.size());
  for (size_t i = 0; i < results.size(); ++i)
    for (size_t rank = 0; rank < first[i].size(); ++rank) {
      PerRank terms;
      for (const auto &[coordinate, part] : parts)
        terms.push_back(part.values[i][rank]);
      results[i].push_back(
          reduceGroup(terms, llvm::to_vector(llvm::seq<int64_t>(0, terms.size())), kind));
    }
  return results;
}

} // namespace parashard::evaluate
