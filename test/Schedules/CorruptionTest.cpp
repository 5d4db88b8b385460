// Changes schedules (tables of tasks) at random. A changed schedule must be accepted if and only if
// executing its tasks by their data dependencies gives the same results as before.
#include "lib/Schedules/Simulator.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <map>
#include <random>
#include <set>

using namespace parashard::schedules;

namespace {

/// Results of a run by stage: the micro-batches in the order in which running statistics and
/// gradients used them. Equal texts mean bit-identical results.
using Results = std::map<int64_t, std::string>;

/// Runs the tasks of each row in order, as soon as the values that they need exist. Returns nullopt
/// if a task needs a value that is never made or makes a value twice.
std::optional<Results> runByValues(const PipelineSchedule &table) {
  std::set<std::string> made; // "y 3 0": output of stage 3 for micro-batch 0
  Results results;
  int64_t last = table.placement.getNumStages() - 1;
  auto name = [](const char *value, int64_t stage, int64_t m) {
    return std::string(value) + " " + std::to_string(stage) + " " + std::to_string(m);
  };
  auto runOne = [&](int64_t rank,
                    const Task &task) -> std::optional<bool> { // nullopt: invalid task
    int64_t m = task.microBatch;
    if (task.chunk >= table.placement.chunks || m >= table.microBatches)
      return std::nullopt;
    int64_t stage = table.placement.getStage(rank, task.chunk);
    std::vector<std::string> needs, makes;
    if (task.work == Work::Forward) {
      if (stage > 0)
        needs.push_back(name("y", stage - 1, m));
      makes.push_back(name("y", stage, m));
    }
    if (task.work == Work::Backward || task.work == Work::BackwardInput) {
      needs.push_back(name("y", stage, m));
      if (stage < last)
        needs.push_back(name("dx", stage + 1, m));
      makes.push_back(name("dx", stage, m));
    }
    if (task.work == Work::BackwardWeight)
      needs.push_back(name("dx", stage, m));
    if (task.work == Work::Backward || task.work == Work::BackwardWeight)
      makes.push_back(name("dw", stage, m));
    for (const std::string &value : needs)
      if (!made.contains(value))
        return false;
    for (const std::string &value : makes) {
      if (!made.insert(value).second)
        return std::nullopt;
      if (value.front() == 'y' || value[1] == 'w' || value[1] == 'x')
        results[stage] += value.substr(0, 2) + std::to_string(m) + " ";
    }
    return true;
  };
  std::vector<size_t> next(table.rows.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < table.rows.size(); ++rank)
      while (next[rank] < table.rows[rank].size()) {
        std::optional<bool> ran = runOne(int64_t(rank), table.rows[rank][next[rank]]);
        if (!ran)
          return std::nullopt;
        if (!*ran)
          break;
        ++next[rank];
        moved = true;
      }
  }
  for (size_t rank = 0; rank < table.rows.size(); ++rank)
    if (next[rank] < table.rows[rank].size())
      return std::nullopt;
  return results;
}

/// Splits the results of each stage by kind (y, dx, dw). The order between kinds does not affect
/// sums.
std::map<std::string, std::string> byKind(const Results &results) {
  std::map<std::string, std::string> kinds;
  for (const auto &[stage, text] : results)
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find(' ', at + 2);
      std::string entry = text.substr(at, end - at);
      kinds[std::to_string(stage) + entry.substr(0, 2)] += entry + ";";
    }
  return kinds;
}

enum Kind {
  Swapped,
  SwappedWithNext,
  Dropped,
  Duplicated,
  Moved,
  OtherMicroBatch,
  OtherWork,
  SwappedBetweenRanks,
  Kinds
};

/// Applies one random change of a kind. Returns false if the table is unchanged.
bool corrupt(PipelineSchedule &table, Kind kind, std::mt19937 &random) {
  auto pick = [&](size_t size) { return random() % size; };
  PipelineSchedule before = table;
  std::vector<Task> &row = table.rows[pick(table.rows.size())];
  size_t a = pick(row.size()), b = pick(row.size());
  switch (kind) {
  case Swapped:
    std::swap(row[a], row[b]);
    break;
  case SwappedWithNext:
    std::swap(row[a], row[(a + 1) % row.size()]);
    break;
  case Dropped:
    row.erase(row.begin() + a);
    break;
  case Duplicated:
    row.insert(row.begin() + b, row[a]);
    break;
  case Moved: {
    Task task = row[a];
    row.erase(row.begin() + a);
    row.insert(row.begin() + b % (row.size() + 1), task);
    break;
  }
  case OtherMicroBatch:
    row[a].microBatch = int64_t(pick(table.microBatches + 1));
    break;
  case OtherWork:
    row[a].work = Work(pick(4));
    break;
  case SwappedBetweenRanks:
    std::swap(row[a], table.rows[pick(table.rows.size())].front());
    break;
  case Kinds:
    break;
  }
  return table.rows != before.rows;
}

bool isAccepted(const PipelineSchedule &table) {
  PipelineTimes times;
  times.stages.resize(table.placement.getNumStages());
  auto replayed = replay(table, times);
  bool accepted = bool(replayed);
  llvm::consumeError(replayed.takeError());
  return accepted;
}

} // namespace

TEST(Corruptions, AreAcceptedIfAndOnlyIfTheResultsAreTheSame) {
  std::mt19937 random(7);
  int accepted = 0;
  for (int kind = 0; kind < Kinds; ++kind)
    for (int tried = 0; tried < 60;) {
      const Schedule &schedule = getSchedules()[random() % getSchedules().size()];
      ScheduleSize size{int64_t(2 + random() % 3), schedule.minChunks, int64_t(2 + random() % 5)};
      PipelineSchedule table = llvm::cantFail(makePipelineSchedule(schedule.name, size));
      auto expected = runByValues(table);
      ASSERT_TRUE(expected && isAccepted(table)) << table.name;
      if (!corrupt(table, Kind(kind), random))
        continue;
      ++tried;
      auto found = runByValues(table);
      bool isSame = found && byKind(*found) == byKind(*expected);
      EXPECT_EQ(isAccepted(table), isSame)
          << table.name << " on " << size.ranks << " ranks, " << size.microBatches
          << " micro-batches, corruption " << kind << " " << tried;
      accepted += isSame;
    }
  EXPECT_GE(accepted, 20) << "too few corrupted tables still run";
}
