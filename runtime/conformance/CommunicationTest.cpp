// Contains the conformance suite of communication backends, which runs every collective, most of
// them over several lists of axes. A single process tests `local` with six ranks as threads. Six
// processes, started by mpirun or with torchrun's variables, test `mpi` or `tcp` with one rank
// each. $PSRT_TEST_TARGET selects the device.
#include "runtime/bootstrap/RankThreads.h"
#include "runtime/comm/process/ProcessJob.h"
#include "runtime/conformance/DeviceFixture.h"
#include <array>
#include <chrono>
#include <deque>
#include <gtest/gtest.h>
#include <map>

using namespace psrt;

namespace {

/// The job of six processes to which this process belongs; null for a single process.
std::unique_ptr<ProcessJob> job;

class Conformance : public testing::Test {
protected:
  Mesh mesh{{{"dp", AxisKind::Data, 2}, {"tp", AxisKind::Tensor, 3}}};
  /// The ranks of this process.
  std::vector<int> here = job ? std::vector<int>{job->rank()} : std::vector<int>{0, 1, 2, 3, 4, 5};

  /// Makes the communication with the queues `names`. Each queue connects all ranks.
  std::unique_ptr<Communication> makeCommunication(std::vector<std::string> names = {""}) const {
    if (!job) {
      auto result = device->makeCommunication(mesh, false);
      return result ? std::move(result) : makeLocalCommunication(mesh, false);
    }
    std::vector<Queue> queues;
    for (std::string &name : names) {
      queues.push_back({std::move(name), {}});
      for (int r = 0; r < mesh.size(); ++r)
        if (r != job->rank())
          queues.back().peers.push_back(r);
    }
    return job->makeCommunication(mesh, queues);
  }

  /// One rank. As in a session, the device is destroyed after the communication.
  struct TestRank {
    std::unique_ptr<RankDevice> device;
    std::unique_ptr<RankComm> comm;
    bool bind(Bound &bound) const { return device->bind(bound) || comm->bind(bound); }
  };
  void makeDevice(const std::vector<decltype(Instruction::op)> &ops) {
    std::vector<Instruction> code;
    for (const auto &op : ops)
      code.push_back({op, {}, ""});
    device.reset(); // the new device must not inherit an error of the old device
    device = makeTestDevice(testTarget(), mesh, int(here.size()), code);
  }
  /// Returns whether each rank has its own GPU. If not, all ranks share one GPU.
  static bool haveOwnGpus() { return std::getenv("PSRT_FAKE_DEVICES") != nullptr; }
  TestRank makeRank(Communication &communication, int r) const {
    TestRank result;
    result.device = device->makeRank(1, false, job ? 0 : r);
    result.comm = communication.makeRank(r);
    return result;
  }

  /// Runs one collective on all ranks. buffers[r] are the buffers of rank r. If `aborts` is set,
  /// the first rank aborts the communication just before it calls the collective.
  void run(const CollectiveOp &op, std::vector<std::vector<std::vector<float>>> &buffers) {
    makeDevice({op});
    auto communication = makeCommunication();
    std::map<int, TestRank> ranks;
    for (int r : here)
      ranks[r];
    RankThreads threads(int(here.size()), [&] { communication->abort(); }, here[0]);
    threads.run([&](int r) { ranks.at(r) = makeRank(*communication, r); });
    threads.run([&](int r) {
      Instruction instruction;
      instruction.op = op;
      TestMemory memory(*ranks.at(r).device, {buffers[r].begin(), buffers[r].end()});
      // Every thread must use the driver before any rank waits for a device. Otherwise, the fake
      // driver would order the thread's first use after this wait, and miss conflicts.
      ranks.at(r).comm->barrier();
      std::vector<void *> pointers = memory.pointers;
      if (inPlace)
        pointers.assign(2, pointers[1]);
      instruction.buffers.resize(pointers.size());
      std::vector<int64_t> coordinates = mesh.coordinates(r);
      Bound bound;
      bound.instruction = &instruction;
      bound.buffers = pointers.data();
      bound.coordinates = &coordinates;
      ASSERT_TRUE(ranks.at(r).bind(bound));
      Instruction waiting;
      waiting.op = WaitOp{op.token};
      Bound wait;
      wait.instruction = &waiting;
      ASSERT_TRUE(op.token < 0 || ranks.at(r).bind(wait));
      ranks.at(r).comm->reserve();
      if (aborts && r == here[0])
        communication->abort();
      for (int repeat = 0; repeat < (inPlace ? 1 : 20); ++repeat) {
        bound.run(bound);
        if (op.token >= 0)
          wait.run(wait);
      }
      memory.bringBack();
    });
  }

  /// Returns the buffers of all ranks: an operand of `in` floats with the values 100 rank + i, and
  /// at least `out` floats for the result.
  std::vector<std::vector<std::vector<float>>> makeBuffers(int64_t in, int64_t out) {
    std::vector<std::vector<std::vector<float>>> result(mesh.size());
    for (int r = 0; r < mesh.size(); ++r) {
      result[r] = {std::vector<float>(in), std::vector<float>(std::max(in, out), -1)};
      for (int64_t i = 0; i < in; ++i)
        result[r][0][i] = float(100 * r + i);
      if (inPlace)
        std::copy(result[r][0].begin(), result[r][0].end(), result[r][1].begin());
    }
    return result;
  }

  const std::vector<std::vector<int>> axisLists = {{0}, {1}, {0, 1}, {1, 0}};
  bool inPlace = false;
  bool aborts = false;
  std::unique_ptr<Device> device;
};

} // namespace

TEST_F(Conformance, AllReduce) {
  for (bool aliased : {false, true})
    for (const std::vector<int> &axes : axisLists)
      for (int64_t count : {1, 5, 3000, 20011}) {
        inPlace = aliased;
        CollectiveOp op;
        op.axes = axes;
        op.counts = {count};
        auto buffers = makeBuffers(count, count);
        run(op, buffers);
        for (int r : here)
          for (int64_t i = 0; i < count; ++i) {
            float sum = 0;
            for (int member : mesh.group(r, axes))
              sum += float(100 * member + i);
            ASSERT_EQ(buffers[r][1][i], sum);
          }
      }
}

/// The first rank runs on the thread of the caller, which must survive the error.
TEST_F(Conformance, ANewCommunicationWorksAfterAnAbort) {
  if (job)
    GTEST_SKIP() << "aborting ends the job";
  CollectiveOp op;
  op.axes = {0, 1};
  op.counts = {7};
  auto buffers = makeBuffers(7, 7);
  aborts = true;
  try {
    run(op, buffers);
  } catch (const Error &) { // ignored: only NCCL reports an error
  }
  aborts = false;
  run(op, buffers);
  for (int r : here)
    EXPECT_EQ(buffers[r][1][6], 1536.0f); // 100 * (0 + ... + 5) + 6 * 6
}

TEST_F(Conformance, SumsAddShardsInAscendingOrder) {
  CollectiveOp op;
  op.axes = {1};
  op.counts = {1};
  auto buffers = makeBuffers(1, 1);
  for (int r = 0; r < mesh.size(); ++r)
    buffers[r][0][0] = std::vector<float>{1e8f, 1.0f, -1e8f}[r % 3]; // (1e8 + 1) - 1e8 is 0 in f32
  run(op, buffers);
  for (int r : here)
    EXPECT_EQ(buffers[r][1][0], 0.0f);
}

/// If each shard were added to an already rounded sum, the last two shards would be lost.
TEST_F(Conformance, SumsOfNarrowFloatsAreRoundedOnce) {
  for (Dtype dtype : {Dtype::BF16, Dtype::F16})
    for (auto kind : {CollectiveOp::AllReduce, CollectiveOp::ReduceScatter}) {
      CollectiveOp op;
      op.kind = kind;
      op.dtype = dtype;
      op.axes = {1};
      op.size = 2, op.counts = {6};
      auto buffers = makeBuffers(3, 3);
      double large = dtype == Dtype::BF16 ? 256 : 2048;
      for (int r = 0; r < mesh.size(); ++r)
        for (int64_t i = 0; i < 6; ++i)
          storeElement(reinterpret_cast<char *>(buffers[r][0].data()) + 2 * i, dtype,
                       r % 3 == 0 ? large : 1);
      run(op, buffers);
      for (int r : here)
        for (int64_t i = 0; i < (kind == CollectiveOp::AllReduce ? 6 : 2); ++i)
          EXPECT_EQ(loadFloat(reinterpret_cast<char *>(buffers[r][1].data()) + 2 * i, dtype),
                    large + 2);
    }
}

TEST_F(Conformance, MaximumAndMinimum) {
  for (auto reduction : {CollectiveOp::Max, CollectiveOp::Min}) {
    CollectiveOp op;
    op.reduction = reduction;
    op.axes = {0, 1};
    op.counts = {4};
    auto buffers = makeBuffers(4, 4);
    run(op, buffers);
    for (int r : here)
      EXPECT_EQ(buffers[r][1][2], reduction == CollectiveOp::Max ? 502.0f : 2.0f);
  }
}

TEST_F(Conformance, BucketOfSeveralBuffers) {
  // In the second bucket, the members' shares of the work begin in the middle of buffers and at
  // their ends.
  for (std::vector<int64_t> counts : {std::vector<int64_t>{3, 5}, {7000, 1, 900, 5000}}) {
    CollectiveOp op;
    op.axes = {1};
    op.counts = counts;
    std::vector<std::vector<std::vector<float>>> buffers(mesh.size());
    for (int r = 0; r < mesh.size(); ++r) {
      for (size_t pair = 0; pair < counts.size(); ++pair) {
        buffers[r].emplace_back(counts[pair]);
        for (int64_t i = 0; i < counts[pair]; ++i)
          buffers[r][pair][i] = float(10000 * r + 1000 * int(pair) + i % 1000);
      }
      for (int64_t count : counts)
        buffers[r].emplace_back(count);
    }
    run(op, buffers);
    for (int r : here)
      for (size_t pair = 0; pair < counts.size(); ++pair)
        for (int64_t i = 0; i < counts[pair]; ++i) {
          int64_t want = 10000 * (r / 3 * 9 + 3) + 3000 * int64_t(pair) + 3 * (i % 1000);
          ASSERT_EQ(buffers[r][counts.size() + pair][i], float(want));
        }
  }
}

TEST_F(Conformance, ReduceScatterAndAllGather) {
  for (bool aliased : {false, true})
    for (const std::vector<int> &axes : axisLists) {
      inPlace = aliased;
      int64_t members = mesh.shards(axes), outer = 2, size = 2, inner = 3,
              local = outer * size * inner;
      CollectiveOp op;
      op.axes = axes;
      op.outer = outer, op.size = size, op.inner = inner;
      op.kind = CollectiveOp::ReduceScatter;
      auto scattered = makeBuffers(local * members, local);
      run(op, scattered);
      op.kind = CollectiveOp::AllGather;
      auto gathered = makeBuffers(local, local * members);
      run(op, gathered);
      for (int r : here) {
        std::vector<int> group = mesh.group(r, axes);
        int64_t mine = mesh.shardIndex(axes, mesh.coordinates(r));
        for (int64_t i = 0; i < local; ++i) {
          int64_t o = i / (size * inner), rest = i % (size * inner);
          float sum = 0;
          for (int member : group)
            sum += float(100 * member + (o * members + mine) * size * inner + rest);
          ASSERT_EQ(scattered[r][1][i], sum);
          for (int64_t m = 0; m < members; ++m)
            ASSERT_EQ(gathered[r][1][(o * members + m) * size * inner + rest],
                      float(100 * group[m] + i));
        }
      }
    }
}

TEST_F(Conformance, AllToAll) {
  // A [2, 6] tensor is split along dim 1 and concatenated along dim 0, which gives [6, 2].
  for (bool aliased : {false, true}) {
    inPlace = aliased;
    CollectiveOp op;
    op.kind = CollectiveOp::AllToAll;
    op.axes = {1};
    op.shape = {2, 6};
    op.split = 1, op.concat = 0;
    auto buffers = makeBuffers(12, 12);
    run(op, buffers);
    for (int r : here)
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t j = 0; j < 2; ++j) {
          int64_t want = 100 * (r / 3 * 3 + i / 2) + i % 2 * 6 + r % 3 * 2 + j;
          EXPECT_EQ(buffers[r][1][i * 2 + j], float(want));
        }
  }
}

TEST_F(Conformance, AsynchronousWorkIsDoneAtItsWait) {
  auto sumOver = [](int axis, int64_t token) {
    CollectiveOp op;
    op.axes = {axis};
    op.counts = {50000};
    op.token = token;
    return op;
  };
  makeDevice({sumOver(0, 0), sumOver(1, -1)});
  auto communication = makeCommunication();
  RankThreads threads(int(here.size()), [&] { communication->abort(); }, here[0]);
  threads.run([&](int r) {
    TestRank rank = makeRank(*communication, r);
    RankComm *comm = rank.comm.get();
    constexpr int64_t count = 50000;
    // Starts two asynchronous collectives, with a synchronous one in between, then waits for both.
    std::vector<std::vector<float>> ins, outs;
    std::vector<Instruction> code(5);
    for (int i = 0; i < 3; ++i) {
      ins.emplace_back(count, float(r + i));
      outs.emplace_back(count, -1.0f);
      code[i].op = i == 1 ? sumOver(1, -1) : sumOver(0, i);
    }
    code[3].op = WaitOp{0};
    code[4].op = WaitOp{2};
    TestMemory memory(*rank.device, {ins[0], outs[0], ins[1], outs[1], ins[2], outs[2]});
    std::vector<Bound> bound(5);
    for (int i = 0; i < 5; ++i) {
      bound[i].instruction = &code[i];
      bound[i].buffers = i < 3 ? memory.pointers.data() + 2 * i : nullptr;
      ASSERT_TRUE(comm->bind(bound[i]));
    }
    comm->reserve();
    for (int repeat = 0; repeat < 20; ++repeat) {
      for (const Bound &one : bound)
        one.run(one);
      memory.bringBack();
      for (int i = 0; i < 3; ++i) {
        float sum = 0;
        for (int member : mesh.group(r, {i == 1 ? 1 : 0}))
          sum += float(member + i);
        ASSERT_EQ(outs[i], std::vector<float>(count, sum));
        std::fill(outs[i].begin(), outs[i].end(), -1.0f);
      }
      comm->barrier(); // the next round writes buffers that other ranks may still read
      memory.bring();
    }
    bound[0].run(bound[0]);
    comm->drain();
    memory.bringBack();
    ASSERT_EQ(outs[0][count - 1], float(2 * (r % 3) + 3));
    comm->barrier();
  });
}

TEST_F(Conformance, Permute) {
  CollectiveOp op;
  op.kind = CollectiveOp::Permute;
  op.axes = {1};
  op.targets = {1, 2, 0};
  op.counts = {4};
  auto buffers = makeBuffers(4, 4);
  run(op, buffers);
  for (int r : here) {
    int from = r / 3 * 3 + (r % 3 + 2) % 3;
    EXPECT_EQ(buffers[r][1][3], float(100 * from + 3));
  }
}

TEST_F(Conformance, ShardSliceFillsPaddingWithZero) {
  CollectiveOp op;
  op.kind = CollectiveOp::ShardSlice;
  op.axes = {1};
  op.outer = 2, op.size = 2, op.inner = 1, op.whole = 5;
  auto buffers = makeBuffers(10, 4);
  run(op, buffers);
  const float kept[3][4] = {{0, 1, 5, 6}, {2, 3, 7, 8}, {4, -1, 9, -1}}; // -1: padding
  for (int r : here)
    for (int i = 0; i < 4; ++i) {
      float from = kept[r % 3][i];
      EXPECT_EQ(buffers[r][1][i], from < 0 ? 0 : float(100 * r) + from);
    }
}

TEST_F(Conformance, AFailingRankWakesAllOthersAtOnce) {
  if (job)
    GTEST_SKIP() << "the failure would end this job; covered by test_faults.py";
  makeDevice({});
  auto communication = makeCommunication();
  std::vector<TestRank> ranks(mesh.size());
  RankThreads threads(int(mesh.size()), [&] { communication->abort(); });
  threads.run([&](int r) { ranks[r] = makeRank(*communication, r); });
  auto start = std::chrono::steady_clock::now();
  try {
    threads.run([&](int r) {
      if (r == 2)
        throw std::runtime_error("on purpose");
      ranks[r].comm->barrier();
    });
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.status.rank, 2);
    EXPECT_EQ(error.status.message, "on purpose");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  communication->reset();
  threads.run([&](int r) { ranks[r].comm->barrier(); });
}

/// In each run, the fake driver ignores one wait of a stream for an event. The driver must then
/// report a conflict between the accesses that this wait ordered.
TEST_F(Conformance, EveryWaitOfAStreamIsNeeded) {
  if (testTarget() == "cpu" || usesNvidia() || haveOwnGpus())
    GTEST_SKIP() << "no streams, no fake driver, or no waits between streams";
  CollectiveOp op;
  op.axes = {1};
  op.counts = {300};
  inPlace = true;                  // makes run() call the collective once
  constexpr int waits = 6 * 2 * 2; // 6 ranks, each with 2 peers; before and after the collective
  for (int dropped = 1; dropped <= waits + 1; ++dropped) {
    setenv("PSRT_FAKE_DROP", std::to_string(dropped).c_str(), 1);
    auto buffers = makeBuffers(300, 300);
    if (dropped <= waits)
      EXPECT_THROW(run(op, buffers), Error) << dropped;
    else
      run(op, buffers);
  }
  unsetenv("PSRT_FAKE_DROP");
}

/// Tests that every wait of a stream is needed for asynchronous work, too. The stream of this work
/// waits for the rank's stream at the start, and the rank's stream waits for the work at the
/// WaitOp.
TEST_F(Conformance, EveryWaitOfAStreamForAsynchronousWorkIsNeeded) {
  if (testTarget() == "cpu" || usesNvidia())
    GTEST_SKIP() << "no streams, or no fake driver";
  CollectiveOp op;
  op.axes = {1};
  op.counts = {300};
  op.token = 0;
  inPlace = true; // makes run() call the collective once
  const int waits = 6 * (haveOwnGpus() ? 2 : 2 * 2 + 2);
  int noticed = 0;
  for (int dropped = 1; dropped <= waits + 1; ++dropped) {
    setenv("PSRT_FAKE_DROP", std::to_string(dropped).c_str(), 1);
    auto buffers = makeBuffers(300, 300);
    try {
      run(op, buffers);
    } catch (const Error &) {
      ++noticed;
      EXPECT_LE(dropped, waits);
    }
  }
  unsetenv("PSRT_FAKE_DROP");
  // At the first use of a queue's stream, all earlier work has finished, so this wait is not
  // needed. Which numbers these waits have depends on the timing of the ranks' threads.
  if (haveOwnGpus())
    EXPECT_GE(noticed, 1);
  else
    EXPECT_EQ(noticed, waits);
}

TEST_F(Conformance, MovesBytesToTheFirstAndFromIt) {
  if (!job)
    GTEST_SKIP() << "one process needs no copies";
  auto communication = makeCommunication();
  for (int from = 1; from < job->size(); ++from) {
    std::vector<int> mine(1000, 7 * job->rank()), received(1000);
    communication->sendToRank0(from, mine.data(), received.data(), 4000, "a test");
    EXPECT_EQ(received, std::vector<int>(1000, job->rank() == 0 ? 7 * from : 0));
  }
  std::vector<int> shared(1000, job->rank() == 0 ? 5 : 0);
  communication->broadcast(shared.data(), 4000, "a test");
  EXPECT_EQ(shared, std::vector<int>(1000, 5));
}

namespace {
/// A pipeline of three stages with two ranks each.
class Pipelines : public Conformance {
protected:
  Pipelines() { mesh = {{{"pp", AxisKind::Pipeline, 3}, {"dp", AxisKind::Data, 2}}}; }

  /// Creates and binds the instructions of one rank, which run() then runs in order.
  struct Script {
    explicit Script(TestRank &rank) : rank(rank) {}
    TestRank &rank;
    std::unique_ptr<RankMemory> memory = rank.device->makeMemory(4096);
    std::map<float *, int64_t>
        addresses; ///< addresses of the test's numbers, if the rank has device memory
    std::deque<Instruction> instructions;
    std::deque<std::vector<void *>> buffers;
    std::deque<Bound> bounds;

    void *find(float &data) {
      if (memory->host(0))
        return &data;
      auto [it, isNew] = addresses.try_emplace(&data, 256 * int64_t(addresses.size()));
      if (isNew)
        memory->write(it->second, &data, sizeof(data));
      return memory->at(it->second);
    }
    void bringBack() {
      for (auto [data, address] : addresses)
        memory->read(address, data, sizeof(*data));
    }
    void add(decltype(Instruction::op) op, std::vector<void *> pointers = {}) {
      instructions.push_back({std::move(op), {}, ""});
      instructions.back().buffers.resize(pointers.size());
      buffers.push_back(std::move(pointers));
      bounds.emplace_back();
      bounds.back().instruction = &instructions.back();
      bounds.back().buffers = buffers.back().data();
      ASSERT_TRUE(rank.comm->bind(bounds.back()));
    }
    void message(bool receives, int64_t peer, const char *queue, int64_t number, float &data) {
      add(MessageOp{receives, peer, sizeof(data), number, queue, number, 0}, {find(data)});
    }
    void reduce(std::vector<int64_t> over, int64_t token, float &in, float &out) {
      CollectiveOp op;
      op.overPipeline = std::move(over);
      op.queue = "shared";
      op.counts = {1};
      op.token = token;
      add(op, {find(in), find(out)});
    }
    void wait(int64_t token) { add(WaitOp{token}); }
  };

  template <typename Write> void run(Write write) {
    CollectiveOp ends, all;
    ends.queue = all.queue = "shared";
    ends.overPipeline = {0, 2};
    all.overPipeline = {0, 1, 2};
    makeDevice({MessageOp{false, 1, 4, 0, "act.0-1"}, MessageOp{false, 0, 4, 0, "act.0-1"},
                MessageOp{false, 2, 4, 0, "act.0-2"}, MessageOp{false, 0, 4, 0, "act.0-2"},
                MessageOp{false, 1, 4, 0, "grad.1-0"}, MessageOp{false, 0, 4, 0, "grad.1-0"}, ends,
                all});
    auto communication = makeCommunication({"act.0-1", "act.0-2", "grad.1-0", "shared"});
    std::map<int, TestRank> ranks;
    for (int r : here)
      ranks[r];
    RankThreads threads(int(here.size()), [&] { communication->abort(); }, here[0]);
    threads.run([&](int r) {
      ranks.at(r) = makeRank(*communication, r);
      Script script(ranks.at(r));
      write(script, r);
      ranks.at(r).comm->reserve();
      if (aborts && r == here[0])
        communication->abort();
      for (int repeat = 0; repeat < 50; ++repeat)
        for (const Bound &bound : script.bounds)
          bound.run(bound);
      ranks.at(r).comm->drain();
      script.bringBack();
      ranks.at(r).comm->barrier(); // other ranks may write to this rank's data until this barrier
    });
  }
};
} // namespace

TEST_F(Pipelines, NeighboursSendToOneAnotherBeforeEitherReceives) {
  std::vector<std::array<float, 4>> data(6);
  for (int r = 0; r < 6; ++r)
    data[r] = {float(r), float(10 + r), -1, -1};
  run([&](Script &script, int r) {
    auto &[first, second, third, fourth] = data[r];
    if (int stage = r / 2; stage == 0) {
      script.message(false, 1, "act.0-1", 0, first);
      script.message(false, 1, "act.0-1", 1, second);
      script.message(true, 1, "grad.1-0", 2, third);
      script.wait(2);
      script.wait(0);
      script.wait(1);
    } else if (stage == 1) {
      script.message(false, 0, "grad.1-0", 2, first);
      script.message(true, 0, "act.0-1", 0, third);
      script.message(true, 0, "act.0-1", 1, fourth);
      script.wait(1); // message 0 is earlier in the same queue, so it is done as well
      script.wait(0);
      script.wait(2);
    }
  });
  for (int r : here)
    if (r < 2) {
      EXPECT_EQ(data[r][2], float(r + 2));
    } else if (r < 4) {
      EXPECT_EQ(data[r][2], float(r - 2));
      EXPECT_EQ(data[r][3], float(10 + r - 2));
    }
}

TEST_F(Pipelines, AReductionOverStagesDoesNotBlockItsStart) {
  std::vector<std::array<float, 3>> data(6);
  for (int r = 0; r < 6; ++r)
    data[r] = {float(1 << r), -1, -1};
  run([&](Script &script, int r) {
    auto &[own, sum, received] = data[r];
    if (int stage = r / 2; stage == 0) {
      script.reduce({0, 2}, 0, own, sum);
      script.message(false, 2, "act.0-2", 1, own);
      script.wait(0);
      script.wait(1);
    } else if (stage == 2) {
      script.message(true, 0, "act.0-2", 1, received);
      script.wait(1);
      script.reduce({0, 2}, 0, own, sum);
      script.wait(0);
    }
  });
  for (int r : here)
    if (r / 2 != 1) {
      EXPECT_EQ(data[r][1], float((1 << r % 2) + (1 << (r % 2 + 4))));
      EXPECT_EQ(data[r][2], r / 2 == 2 ? float(1 << (r - 4)) : -1);
    }
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  ProcessIdentity identity = findProcessIdentity();
  if (identity.size > 1)
    job = std::make_unique<ProcessJob>(
        identity, identity.launcher == ProcessIdentity::Mpi ? Comm::Mpi : Comm::Tcp,
        "psrt-comm-test");
  int result = RUN_ALL_TESTS();
  if (job)
    job->leave();
  return result;
}
