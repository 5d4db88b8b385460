// Prints the time of a message of BYTES bytes between two pipeline coordinates, in milliseconds:
// half of the median round trip. Without a launcher, the ranks are threads of this process.
// Under mpirun or torchrun, the ranks are two processes.
#include "runtime/bootstrap/RankThreads.h"
#include "runtime/comm/process/ProcessJob.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

using namespace psrt;

/// Runs the sends and receives of one rank. The constructor binds their instructions once.
class Player {
public:
  Player(RankComm &comm, int rank, int64_t bytes) : data(bytes), pointer(data.data()) {
    const char *queues[] = {"act.0-1", "grad.1-0"};
    for (int direction : {0, 1}) { // messages to rank 1 and back
      MessageOp message{rank != direction, 1 - rank,  bytes, direction,
                        queues[direction], direction, 0};
      instructions[2 * direction].op = message;
      instructions[2 * direction + 1].op = WaitOp{direction};
    }
    for (size_t i = 0; i < bounds.size(); ++i) {
      bounds[i].instruction = &instructions[i];
      bounds[i].buffers = &pointer;
      comm.bind(bounds[i]);
    }
    comm.reserve();
  }
  void play() const {
    for (const Bound &bound : bounds)
      bound.run(bound);
  }

private:
  std::vector<char> data;
  void *pointer;
  std::array<Instruction, 4> instructions;
  std::array<Bound, 4> bounds;
};

static double measure(int64_t bytes, ProcessJob *job) {
  Mesh mesh{{{"pp", AxisKind::Pipeline, 2}}};
  std::vector<int> peers = {job ? 1 - job->rank() : 1};
  auto communication = job ? job->makeCommunication(mesh, {{"act.0-1", peers}, {"grad.1-0", peers}})
                           : makeLocalCommunication(mesh, /*dedicated=*/true);
  std::vector<double> times;
  RankThreads threads(job ? 1 : 2, [&] { communication->abort(); }, job ? job->rank() : 0);
  threads.run([&](int rank) {
    auto comm = communication->makeRank(rank);
    Player player(*comm, rank, bytes);
    for (int i = 0; i < 200; ++i) {
      auto begin = std::chrono::steady_clock::now();
      player.play();
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      if (rank == 0)
        times.push_back(took.count() / 2);
    }
    comm->drain();
    comm->barrier();
  });
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

/// Returns the number of bytes that the argument names, or 0 if there is none.
static int64_t readBytes(int argc, char **argv) {
  if (argc != 2)
    return 0;
  int64_t bytes = 0;
  const char *end = argv[1] + std::strlen(argv[1]);
  auto [stop, error] = std::from_chars(argv[1], end, bytes);
  return error == std::errc() && stop == end ? bytes : 0;
}

int main(int argc, char **argv) {
  int64_t bytes = readBytes(argc, argv);
  if (bytes <= 0) {
    std::fprintf(stderr, "usage: message-time BYTES\n");
    return 2;
  }
  std::unique_ptr<ProcessJob> job;
  ProcessIdentity identity = findProcessIdentity();
  if (identity.size > 1)
    job = std::make_unique<ProcessJob>(
        identity, identity.launcher == ProcessIdentity::Mpi ? Comm::Mpi : Comm::Tcp,
        "message-time");
  double time = measure(bytes, job.get());
  if (!job || job->rank() == 0)
    std::printf("%.4f\n", time);
  if (job)
    job->leave();
  return 0;
}
