// Implements ps-verify-scheduled: checks waits, queues, offloaded variables and communication.
#include "dialects/ps/VerifyModule.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/PipelineAxis.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/VerifyCommunication.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::partition;
using namespace parashard::ps;

namespace parashard::pipeline {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// Checks that no op uses `value` before `wait`. `message` is the text of the error.
LogicalResult verifyUsesAfter(rank::WaitOp wait, Value value, StringRef message) {
  for (Operation *user : value.getUsers())
    if (user->isBeforeInBlock(wait)) {
      InFlightDiagnostic error = user->emitOpError() << message;
      error.attachNote(wait.getLoc()) << "waited for here";
      return error;
    }
  return success();
}

/// Checks that a collective has a wait, and that its results are used after the wait.
LogicalResult verifyWaits(rank::StartOp start) {
  rank::WaitOp wait = findWait(start.getToken());
  if (!wait)
    return start.emitOpError("(scheduled_c1) is never waited for");
  for (Value result : start.getResults())
    if (failed(verifyUsesAfter(wait, result,
                               "(scheduled_c2) uses a collective's result before its wait")))
      return failure();
  return success();
}

/// Checks that a received value is used after its wait.
LogicalResult verifyReceive(rank::RecvOp recv) {
  rank::WaitOp wait = findWait(recv.getToken());
  return wait ? verifyUsesAfter(wait, recv.getResult(),
                                "(scheduled_c2) uses a received value before its wait")
              : success();
}

/// Checks that runs with a segment add to each variable in the order of the micro-batches.
LogicalResult verifyOrderOfSums(rank::ProgramOp program, const SymbolTable &symbols) {
  llvm::DenseMap<Attribute, rank::RunOp> last;
  for (auto run : program.getBody().getOps<rank::RunOp>()) {
    auto microBatch = run->getAttrOfType<IntegerAttr>(kMicroBatchMark);
    auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
    if (!microBatch || !callee || !run.getSegment())
      continue;
    auto refs = llvm::make_filter_range(callee.getArguments(),
                                        [](Value value) { return isa<RefType>(value.getType()); });
    for (auto [symbol, ref] : llvm::zip(run.getVariableSymbols(), refs)) {
      if (llvm::none_of(ref.getUsers(), [](Operation *user) { return isa<AccumulateOp>(user); }))
        continue;
      rank::RunOp &before = last[symbol];
      if (before &&
          before->getAttrOfType<IntegerAttr>(kMicroBatchMark).getInt() > microBatch.getInt()) {
        InFlightDiagnostic error =
            run.emitOpError("(scheduled_c10) adds micro-batch ")
            << microBatch.getInt() << " to \"" << symbol.getValue()
            << "\" after a later micro-batch; add the micro-batches in ascending order";
        error.attachNote(before.getLoc()) << "added here";
        return error;
      }
      before = run;
    }
  }
  return success();
}

/// Checks that no op writes a variable between a collective that reads it and the collective's
/// wait.
LogicalResult verifyVariables(rank::StartOp start) {
  for (Value operand : start.getOperands()) {
    auto read = operand.getDefiningOp<ReadOp>();
    if (!read)
      continue;
    for (Operation *op = read->getNextNode(); op != findWait(start.getToken());
         op = op->getNextNode())
      if (mayWrite(op, read.getVariableAttr())) {
        InFlightDiagnostic error =
            op->emitOpError("(scheduled_c6) may write \"")
            << read.getVariableAttr().getValue()
            << "\" while a collective reads it; wait for the collective first";
        error.attachNote(start.getLoc()) << "started here";
        return error;
      }
  }
  return success();
}

//===--- variables in host memory -----------------------------------------===//

bool isInHost(const SymbolTable &symbols, FlatSymbolRefAttr symbol) {
  auto variable = symbols.lookup<VariableOp>(symbol.getValue());
  return variable && variable->hasAttr(kHostMark);
}

InFlightDiagnostic refuseUse(Operation *op, FlatSymbolRefAttr symbol) {
  return op->emitOpError("(scheduled_c11) uses ")
         << symbol << ", which is in host memory and not fetched for this op; run ps-offload";
}

/// Checks that an op uses a variable in host memory only through a fetched copy.
LogicalResult verifyUse(Operation &op, const SymbolTable &symbols) {
  auto check = [&](FlatSymbolRefAttr symbol) -> LogicalResult {
    return isInHost(symbols, symbol) ? LogicalResult(refuseUse(&op, symbol)) : success();
  };
  if (auto read = dyn_cast<ReadOp>(op))
    return check(read.getVariableAttr());
  if (auto write = dyn_cast<WriteOp>(op))
    return check(write.getVariableAttr());
  if (auto run = dyn_cast<rank::RunOp>(op))
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
      if (!run.getStaged(symbol) && failed(check(symbol)))
        return failure();
  return success();
}

/// Checks that a fetched variable is offloaded once, and used only between the wait for its fetch
/// and the offload.
LogicalResult verifyStaged(rank::FetchOp fetch, OpResult staged, rank::WaitOp wait) {
  FlatSymbolRefAttr symbol = fetch.getVariable(staged);
  rank::OffloadOp back;
  for (Operation *user : staged.getUsers())
    if (auto offload = dyn_cast<rank::OffloadOp>(user)) {
      if (back)
        return offload.emitOpError("(scheduled_c13) offloads ") << symbol << " a second time";
      back = offload;
    }
  if (!back)
    return fetch.emitOpError("(scheduled_c13) fetches ") << symbol << ", but never offloads it";
  if (!findWait(back.getToken()))
    return back.emitOpError("(scheduled_c1) is never waited for");
  for (Operation *user : staged.getUsers())
    if (user->isBeforeInBlock(wait) || (user != back && back->isBeforeInBlock(user)))
      return user->emitOpError("(scheduled_c12) uses ")
             << symbol << " before the wait for its fetch or after its offload";
  return success();
}

LogicalResult verifyFetches(rank::ProgramOp program, const SymbolTable &symbols) {
  llvm::DenseMap<Attribute, rank::WaitOp> back; ///< wait of each variable's last offload
  for (Operation &op : program.getBody().front()) {
    if (failed(verifyUse(op, symbols)))
      return failure();
    auto fetch = dyn_cast<rank::FetchOp>(op);
    if (!fetch)
      continue;
    rank::WaitOp wait = findWait(fetch.getToken());
    if (!wait)
      return fetch.emitOpError("(scheduled_c1) is never waited for");
    for (Value result : fetch.getResults()) {
      auto staged = cast<OpResult>(result);
      FlatSymbolRefAttr symbol = fetch.getVariable(staged);
      if (!isInHost(symbols, symbol))
        return fetch.emitOpError("(scheduled_c11) fetches ")
               << symbol << ", which is not in host memory";
      if (rank::WaitOp last = back.lookup(symbol); last && !last->isBeforeInBlock(fetch))
        return fetch.emitOpError("(scheduled_c13) fetches ")
               << symbol << " before the wait for its last offload";
      if (failed(verifyStaged(fetch, staged, wait)))
        return failure();
      for (Operation *user : staged.getUsers())
        if (auto offload = dyn_cast<rank::OffloadOp>(user))
          back[symbol] = findWait(offload.getToken());
    }
  }
  return success();
}

/// Checks that an unstash starts after the wait for its stash, and that its results are used after
/// the wait for the unstash.
LogicalResult verifyUnstash(rank::UnstashOp unstash) {
  rank::WaitOp back = findWait(unstash.getToken());
  if (!back)
    return unstash.emitOpError("(scheduled_c1) is never waited for");
  for (Value held : unstash.getOperands()) {
    rank::WaitOp gone = findWait(held.getDefiningOp<rank::StashOp>().getToken());
    if (gone && !gone->isBeforeInBlock(unstash))
      return unstash.emitOpError(
          "(scheduled_c14) unstashes values before the wait for their stash");
  }
  for (Value result : unstash.getResults())
    if (failed(verifyUsesAfter(back, result,
                               "(scheduled_c14) uses an unstashed value before its wait")))
      return failure();
  return success();
}

LogicalResult verifyStashes(rank::ProgramOp program) {
  for (auto stash : program.getBody().getOps<rank::StashOp>()) {
    if (!findWait(stash.getToken()))
      return stash.emitOpError("(scheduled_c1) is never waited for");
    for (Value held : stash.getResults())
      if (!held.hasOneUse() || !isa<rank::UnstashOp>(*held.user_begin()))
        return stash.emitOpError("(scheduled_c14) has a result that needs exactly one use, "
                                 "by a rank.unstash");
  }
  for (auto unstash : program.getBody().getOps<rank::UnstashOp>())
    if (failed(verifyUnstash(unstash)))
      return failure();
  return success();
}

/// Checks that the waits of a queue's collectives are in the order of their starts.
LogicalResult verifyQueues(rank::ProgramOp program) {
  llvm::StringMap<rank::WaitOp> last;
  for (auto start : program.getBody().getOps<rank::StartOp>()) {
    rank::WaitOp wait = findWait(start.getToken());
    rank::WaitOp &before = last[start.getQueue()];
    if (before && wait->isBeforeInBlock(before))
      return wait.emitOpError(
                 "(scheduled_c3) comes before the wait for an earlier entry of queue \"")
             << start.getQueue() << "\"";
    before = wait;
  }
  return success();
}

/// Checks that each input of a micro-batch is read by a single op.
LogicalResult verifyInputs(rank::ProgramOp program) {
  llvm::DenseMap<std::pair<StringRef, int64_t>, rank::InputOp> known;
  for (auto input : program.getBody().getOps<rank::InputOp>()) {
    auto [it, isNew] = known.try_emplace({input.getInput(), input.getMicroBatch()}, input);
    if (isNew)
      continue;
    InFlightDiagnostic error =
        input.emitOpError("(scheduled_c5) reads an input that another op already reads");
    error.attachNote(it->second.getLoc()) << "read here";
    return error;
  }
  return success();
}

/// Checks that each pipeline coordinate has exactly one program of an entry.
LogicalResult verifyCoordinates(StringRef entry, ArrayRef<rank::ProgramOp> programs) {
  std::map<int64_t, rank::ProgramOp> byCoordinate;
  for (rank::ProgramOp program : programs) {
    auto [known, isNew] = byCoordinate.try_emplace(program.getPp(), program);
    if (isNew)
      continue;
    InFlightDiagnostic error =
        program.emitOpError("(scheduled_c17) is a second program of entry \"")
        << entry << "\" for pipeline coordinate " << program.getPp();
    error.attachNote(known->second.getLoc()) << "first program here";
    return error;
  }
  rank::ProgramOp first = programs.front();
  for (int64_t coordinate = 0; coordinate < rank::getPipelineSize(first); ++coordinate)
    if (!byCoordinate.contains(coordinate))
      return first.emitOpError("(scheduled_c17) belongs to entry \"")
             << entry << "\", which has no program for pipeline coordinate " << coordinate;
  return success();
}

struct VerifyScheduledPass : impl::VerifyScheduledPassBase<VerifyScheduledPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    SymbolTable symbols(getOperation());
    if (failed(verifyModule(getOperation())) ||
        failed(verifyStageMarks(getOperation(), "scheduled_c18")) ||
        failed(verifyCallees(getOperation(), "scheduled_c19")))
      return signalPassFailure();
    llvm::MapVector<StringRef, SmallVector<rank::ProgramOp>> byEntry;
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      for (auto start : program.getBody().getOps<rank::StartOp>())
        if (failed(verifyWaits(start)) || failed(verifyVariables(start)))
          return signalPassFailure();
      for (auto recv : program.getBody().getOps<rank::RecvOp>())
        if (failed(verifyReceive(recv)))
          return signalPassFailure();
      if (failed(verifyQueues(program)) || failed(verifyInputs(program)) ||
          failed(verifyOrderOfSums(program, symbols)) || failed(verifyFetches(program, symbols)) ||
          failed(verifyStashes(program)))
        return signalPassFailure();
      byEntry[program.getEntry()].push_back(program);
    }
    for (auto &[entry, programs] : byEntry)
      if (failed(verifyCoordinates(entry, programs)) || failed(verifyCommunication(programs)))
        return signalPassFailure();
    if (failed(verifyPipelineAxis(getOperation(), {"scheduled_c15", "scheduled_c16"})))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kStageMark)) {
        function.emitOpError("(scheduled_c4) is a stage function; run ps-schedule");
        return signalPassFailure();
      }
  }
};
} // namespace
} // namespace parashard::pipeline
