// Meetings of pipeline coordinates.
#include "lib/Evaluate/Exchange.h"
#include "lib/Evaluate/Collectives.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace parashard {

FailureOr<Exchange::Number> Exchange::start(Operation *op, StringRef queue,
                                            ArrayRef<int64_t> members, int64_t coordinate,
                                            std::vector<PerRank> values) {
  if (!llvm::is_contained(members, coordinate))
    return op->emitOpError() << "is of pipeline coordinates " << members << "; coordinate "
                             << coordinate << ", which starts it, is none of them";
  Place place{queue.str(), members.vec()};
  std::vector<Number> &known = numbers[place];
  size_t n = started[{place, coordinate}]++;
  if (n == known.size()) {
    known.push_back(meetings.size());
    meetings.push_back({queue.str(), members.vec(), {}});
  }
  meetings[known[n]].parts[coordinate] = {op, std::move(values)};
  queues[{coordinate, queue.str()}].push_back(known[n]);
  return known[n];
}

bool Exchange::isOldest(Number meeting, int64_t member) const {
  auto queue = queues.find({member, meetings[meeting].queue});
  return queue != queues.end() && !queue->second.empty() && queue->second.front() == meeting;
}

bool Exchange::canEnd(Number meeting) const {
  return llvm::all_of(meetings[meeting].members,
                      [&](int64_t member) { return isOldest(meeting, member); });
}

//===----------------------------------------------------------------------===//
// Whether members do the same thing
//===----------------------------------------------------------------------===//

/// What an op has in common with its counterparts: for a message what is sent, for a collective the
/// kind, the types and what it reduces.
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
        if (auto name = o->getAttrOfType<StringAttr>(rank::kReducedMark))
          os << " of '" << name.getValue() << "'";
        os << " of " << o->getOperandTypes();
      });
  return text;
}

/// Whether two ops are the ends of one message, or the same collective.
static bool fitTogether(Operation *a, Operation *b) {
  bool isMessage = isa<rank::SendOp>(a) || isa<rank::RecvOp>(a);
  bool isPair = isMessage ? (isa<rank::SendOp>(a) && isa<rank::RecvOp>(b)) ||
                                (isa<rank::RecvOp>(a) && isa<rank::SendOp>(b))
                          : a->getName() == b->getName();
  return isPair && describeCommon(a) == describeCommon(b);
}

static InFlightDiagnostic refuse(int64_t here, Operation *op, int64_t there, Operation *other) {
  InFlightDiagnostic error = op->emitOpError()
                             << "on pipeline coordinate " << here << " is " << describeCommon(op)
                             << "; it meets '" << other->getName() << "' on coordinate " << there
                             << ", " << describeCommon(other);
  error.attachNote(other->getLoc()) << "there";
  return error;
}

LogicalResult Exchange::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto &[place, queue] : queues) {
      if (queue.empty() || !canEnd(queue.front()))
        continue;
      Meeting &meeting = meetings[queue.front()];
      auto &[first, part] = *meeting.parts.begin();
      for (auto &[coordinate, other] : llvm::drop_begin(meeting.parts))
        if (!fitTogether(part.op, other.op))
          return refuse(coordinate, other.op, first, part.op);
      for (int64_t member : meeting.members)
        queues[{member, meeting.queue}].pop_front();
      meeting.isOver = moved = true;
    }
  }
  return success();
}

std::string Exchange::describeMissing(Number number) const {
  const Meeting &meeting = meetings[number];
  for (int64_t member : meeting.members)
    if (!meeting.parts.count(member))
      return "pipeline coordinate " + std::to_string(member) + " never joins it";
  for (int64_t member : meeting.members)
    if (!isOldest(number, member))
      return "on pipeline coordinate " + std::to_string(member) +
             " something older in its queue never ends";
  return "it could end";
}

std::vector<PerRank> Exchange::reduce(Number number, ps::ReductionKind kind) const {
  const std::map<int64_t, Part> &parts = meetings[number].parts;
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

} // namespace parashard
