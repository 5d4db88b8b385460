// Matches sends with receives, and executes the programs' communication symbolically.
#include "lib/Pipeline/VerifyCommunication.h"
#include "llvm/ADT/StringExtras.h"
#include <deque>
#include <map>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {

rank::WaitOp findWait(Value token) {
  for (Operation *user : token.getUsers())
    if (auto wait = dyn_cast<rank::WaitOp>(user))
      return wait;
  return {};
}

bool mayWrite(Operation *op, FlatSymbolRefAttr variable) {
  if (auto run = dyn_cast<rank::RunOp>(op))
    return llvm::is_contained(run.getVariableSymbols(), variable);
  auto write = dyn_cast<WriteOp>(op);
  return write && write.getVariableAttr() == variable;
}

namespace {
/// One communication: a message, a reduction over coordinates, or a collective within one
/// coordinate.
struct Entry {
  std::map<int64_t, Operation *> ops; ///< the op of each member, by coordinate
  std::vector<int64_t> members;
};

/// The progress of a coordinate: its next op, and for each queue, the communications that have
/// started but not completed, in order.
struct State {
  int64_t coordinate;
  Block::iterator next, end;
  std::map<std::string, std::deque<Entry *>> queues;

  bool isAtEnd() const { return next == end; }
};

class Verifier {
public:
  explicit Verifier(ArrayRef<rank::ProgramOp> programs) {
    for (rank::ProgramOp program : programs)
      byCoordinate[program.getPp()] = program;
  }

  LogicalResult verify() {
    for (auto &[coordinate, program] : byCoordinate)
      for (Operation &op : program.getBody().front())
        if (failed(collect(coordinate, &op)))
          return failure();
    for (auto &[key, entry] : messages)
      if (failed(verifyMessage(key, entry)))
        return failure();
    for (auto &[key, entry] : reductions)
      if (failed(verifyReduction(entry)))
        return failure();
    return runToEnd();
  }

private:
  /// A position in the queue from one coordinate to another.
  struct Position {
    std::string queue;
    int64_t from, to, number;
    auto operator<=>(const Position &) const = default;
  };
  using Reduction =
      std::tuple<std::string, std::vector<int64_t>, int64_t>; ///< queue, members, index

  LogicalResult collect(int64_t coordinate, Operation *op) {
    Entry *entry = nullptr;
    if (auto send = dyn_cast<rank::SendOp>(op)) {
      Position position{send.getQueue().str(), coordinate, int64_t(send.getPp()), 0};
      position.number = counts[{coordinate, position.queue, position.to}]++;
      entry = &messages[position];
      entry->members = {position.from, position.to};
    } else if (auto recv = dyn_cast<rank::RecvOp>(op)) {
      Position position{recv.getQueue().str(), int64_t(recv.getPp()), coordinate, 0};
      position.number = counts[{coordinate, position.queue, position.from}]++;
      entry = &messages[position];
      entry->members = {position.from, position.to};
    } else if (auto start = dyn_cast<rank::StartOp>(op)) {
      // A collective without `over_pp` connects only ranks of this coordinate. All of these ranks
      // start the collective, because they run the same program. The collective may still have to
      // wait for earlier entries of its queue.
      std::vector<int64_t> members = start.getOverPp().value_or(ArrayRef(coordinate)).vec();
      int64_t number = reductionCounts[{coordinate, start.getQueue().str(), members}]++;
      entry = &reductions[{start.getQueue().str(), members, number}];
      entry->members = members;
    }
    if (!entry)
      return success();
    entry->ops[coordinate] = op;
    entries[op] = entry;
    Value token = op->getResults().back();
    if (!findWait(token))
      return op->emitOpError("(scheduled_c1) is never waited for");
    return success();
  }

  static std::string describe(Operation *op) {
    auto number = [&](StringRef name) {
      return std::to_string(op->getAttrOfType<IntegerAttr>(name).getInt());
    };
    return "value " + number("value") + " of micro-batch " + number("micro_batch");
  }

  static Type getMessageType(Operation *op) {
    auto send = dyn_cast<rank::SendOp>(op);
    return send ? send.getOperand().getType() : op->getResult(0).getType();
  }

  LogicalResult verifyMessage(const Position &position, const Entry &entry) {
    std::string way = "queue \"" + position.queue + "\" from pipeline coordinate " +
                      std::to_string(position.from) + " to " + std::to_string(position.to);
    if (entry.ops.size() < 2) {
      Operation *only = entry.ops.begin()->second;
      return only->emitOpError("(scheduled_c7) has no counterpart: ")
             << describe(only) << ", entry " << position.number << " of " << way << ", is "
             << (isa<rank::SendOp>(only) ? "never received" : "never sent");
    }
    Operation *send = entry.ops.at(position.from), *recv = entry.ops.at(position.to);
    bool isSame = describe(send) == describe(recv) && getMessageType(send) == getMessageType(recv);
    if (isSame && isa<rank::SendOp>(send) && isa<rank::RecvOp>(recv))
      return success();
    InFlightDiagnostic error = recv->emitOpError("(scheduled_c7) receives ")
                               << describe(recv) << ", " << getMessageType(recv) << ", as entry "
                               << position.number << " of " << way << ", but the entry sent is "
                               << describe(send) << ", " << getMessageType(send);
    error.attachNote(send->getLoc()) << "sent here";
    return error;
  }

  static std::string describeReduced(rank::StartOp start) {
    std::string text;
    llvm::raw_string_ostream os(text);
    if (auto name = start->getAttrOfType<StringAttr>(kReducedMark))
      os << "'" << name.getValue() << "', ";
    llvm::interleaveComma(start.getOperands().getTypes(), os);
    return text;
  }

  LogicalResult verifyReduction(const Entry &entry) {
    auto first = cast<rank::StartOp>(entry.ops.begin()->second);
    for (int64_t member : entry.members) {
      auto known = entry.ops.find(member);
      if (known == entry.ops.end())
        return first.emitOpError("(scheduled_c9) reduces over pipeline coordinates ")
               << ArrayRef<int64_t>(entry.members) << ", but coordinate " << member
               << " does not start this reduction";
      auto other = cast<rank::StartOp>(known->second);
      if (TypeRange(other.getOperands()) == TypeRange(first.getOperands()) &&
          other.getKindAttr() == first.getKindAttr() &&
          other->getAttr(kReducedMark) == first->getAttr(kReducedMark))
        continue;
      InFlightDiagnostic error = other.emitOpError("(scheduled_c9) reduces ")
                                 << describeReduced(other) << ", but the same entry of queue \""
                                 << first.getQueue() << "\" reduces " << describeReduced(first)
                                 << " on pipeline coordinate " << entry.ops.begin()->first;
      error.attachNote(first.getLoc()) << "other reduction here";
      return error;
    }
    return success();
  }

  //===--- deadlock ---===//

  LogicalResult runToEnd() {
    for (auto &[coordinate, program] : byCoordinate)
      states[coordinate] = {
          coordinate, program.getBody().front().begin(), program.getBody().front().end(), {}};
    for (bool moved = true; moved;) {
      moved = false;
      for (auto &[coordinate, state] : states)
        moved |= advance(state);
      for (auto &[coordinate, state] : states)
        for (auto &[queue, pending] : state.queues)
          while (!pending.empty() && isAtEveryHead(*pending.front())) {
            complete(*pending.front());
            moved = true;
          }
    }
    for (auto &[coordinate, state] : states)
      if (!state.isAtEnd())
        return reportDeadlock(coordinate);
    return success();
  }

  static std::string getQueue(Operation *op) {
    return op->getAttrOfType<StringAttr>("queue").str();
  }

  /// Returns the communication that a coordinate waits for, or null.
  Entry *getAwaited(State &state) {
    auto wait = state.isAtEnd() ? rank::WaitOp() : dyn_cast<rank::WaitOp>(*state.next);
    Operation *started = wait ? wait.getToken().getDefiningOp() : nullptr;
    auto entry = entries.find(started);
    return entry == entries.end() || completed.contains(entry->second) ? nullptr : entry->second;
  }

  bool advance(State &state) {
    bool moved = false;
    for (; !state.isAtEnd() && !getAwaited(state); ++state.next, moved = true)
      if (auto entry = entries.find(&*state.next); entry != entries.end())
        state.queues[getQueue(&*state.next)].push_back(entry->second);
    return moved;
  }

  bool isAtEveryHead(const Entry &entry) {
    return llvm::all_of(entry.ops, [&](const auto &member) {
      auto &pending = states.at(member.first).queues[getQueue(member.second)];
      return !pending.empty() && pending.front() == &entry;
    });
  }

  void complete(const Entry &entry) {
    completed.insert(&entry);
    for (const auto &[coordinate, op] : entry.ops)
      states.at(coordinate).queues[getQueue(op)].pop_front();
  }

  /// Returns the communication at the head of the queue that contains `entry` on coordinate `self`.
  /// This communication must complete before `entry` can complete. Returns `entry` if the queue is
  /// empty.
  const Entry *findFirst(const Entry *entry, int64_t self) {
    auto &pending = states.at(self).queues[getQueue(entry->ops.at(self))];
    return pending.empty() ? entry : pending.front();
  }

  /// Returns a coordinate that must advance before the first communication in the queue of `self`
  /// (`findFirst`) completes: a coordinate that has not started this communication, or has earlier
  /// ones in its queue. Returns `self` if there is none. `awaited` completes later than the first
  /// communication.
  int64_t findCulprit(const Entry &awaited, int64_t self) {
    const Entry *entry = findFirst(&awaited, self);
    for (const auto &[coordinate, op] : entry->ops) {
      auto &pending = states.at(coordinate).queues[getQueue(op)];
      if (coordinate != self && (pending.empty() || pending.front() != entry))
        return coordinate;
    }
    return self;
  }

  static std::string describeAwaited(Operation *op) {
    auto start = dyn_cast<rank::StartOp>(op);
    return !start ? describe(op) : start.getOverPp() ? "a reduction" : "a collective";
  }

  std::string describeFirst(const Entry &entry, int64_t coordinate) {
    const Entry *first = findFirst(&entry, coordinate);
    return first == &entry ? "" : " after " + describeAwaited(first->ops.at(coordinate));
  }

  LogicalResult reportDeadlock(int64_t from) {
    // Follow who waits for whom until a coordinate repeats.
    std::vector<int64_t> chain;
    int64_t at = from;
    while (!llvm::is_contained(chain, at) && getAwaited(states.at(at))) {
      chain.push_back(at);
      at = findCulprit(*getAwaited(states.at(at)), at);
    }
    chain.erase(chain.begin(), llvm::find(chain, at));
    if (chain.empty())
      chain.push_back(from);
    State &first = states.at(chain.front());
    InFlightDiagnostic error =
        first.next->emitOpError("(scheduled_c8) deadlock: pipeline coordinates ")
        << ArrayRef<int64_t>(chain) << " wait for one another";
    for (int64_t coordinate : chain) {
      Entry *entry = getAwaited(states.at(coordinate));
      Operation *op = entry->ops.at(coordinate);
      error.attachNote(op->getLoc())
          << "pipeline coordinate " << coordinate << " waits for " << describeAwaited(op)
          << " in queue \"" << getQueue(op) << "\"" << describeFirst(*entry, coordinate)
          << "; coordinate " << findCulprit(*entry, coordinate) << " is not ready";
    }
    return error;
  }

  std::map<int64_t, rank::ProgramOp> byCoordinate;
  std::map<Position, Entry> messages;
  std::map<Reduction, Entry> reductions;
  std::map<std::tuple<int64_t, std::string, int64_t>, int64_t> counts;
  std::map<std::tuple<int64_t, std::string, std::vector<int64_t>>, int64_t> reductionCounts;
  llvm::DenseMap<Operation *, Entry *> entries;
  std::map<int64_t, State> states;
  llvm::DenseSet<const Entry *> completed;
};
} // namespace

LogicalResult verifyCommunication(ArrayRef<rank::ProgramOp> programs) {
  return Verifier(programs).verify();
}

} // namespace parashard::pipeline
