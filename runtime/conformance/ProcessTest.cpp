// Tests how the processes of a job identify themselves and find each other.
#include "runtime/bootstrap/Acceptor.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/bootstrap/Rendezvous.h"
#include "runtime/core/Status.h"
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace psrt;

namespace {

/// Removes the environment variables of all launchers, then sets the given variables.
class Environment {
public:
  Environment(std::initializer_list<std::pair<const char *, const char *>> given) {
    for (const char *name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "WORLD_SIZE",
          "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_ID",
          "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "MASTER_ADDR", "MASTER_PORT",
          "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
          "PSRT_TIMEOUT", "PSRT_JOB_SECRET"})
      unsetenv(name);
    for (const auto &[name, value] : given)
      setenv(name, value, 1);
  }
};

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.status.message;
  }
  return "";
}

} // namespace

TEST(Processes, EachLauncherGivesTheRank) {
  {
    Environment none{};
    EXPECT_EQ(findProcessIdentity().size, 1);
  }
  {
    Environment mpirun{
        {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"WORLD_SIZE", "2"}};
    ProcessIdentity identity = findProcessIdentity();
    EXPECT_EQ(identity.launcher, ProcessIdentity::Mpi);
    EXPECT_EQ(identity.rank, 3);
    EXPECT_EQ(identity.size, 4);
  }
  {
    Environment batchScript{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}};
    EXPECT_EQ(findProcessIdentity().size, 1);
  }
}

/// The side that closes a connection first keeps its port in the state TIME_WAIT for a minute. The
/// next job must be able to listen at this port earlier.
TEST(Processes, APortIsFreeOnceItsJobHasEnded) {
  uint16_t port;
  {
    Socket listener = listenAt(0, true);
    port = portOf(listener);
    Deadline deadline = secondsFromNow(10);
    Socket client = connectTo("127.0.0.1", port, deadline), server;
    while (!(server = acceptFrom(listener)) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ASSERT_TRUE(client && server);
    server = Socket();
    char byte;
    EXPECT_FALSE(receiveAll(client, &byte, 1, deadline)); // the server has closed the connection
  }
  Socket again = listenAt(port, true);
  EXPECT_TRUE(again);
  EXPECT_FALSE(listenAt(port, true)) << "two jobs listen at one port";
}

TEST(Processes, TorchrunsAgentHoldsTheMastersPort) {
  Environment plain{
      {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  RendezvousAddress found = findRendezvousAddress(findProcessIdentity());
  EXPECT_EQ(found.firstPort, 29500);
  EXPECT_EQ(found.ports, 1);
  EXPECT_TRUE(found.local);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  setenv("TORCHELASTIC_RUN_ID", "one", 1);
  found = findRendezvousAddress(findProcessIdentity());
  EXPECT_EQ(found.firstPort, 29501);
  EXPECT_EQ(found.ports, 32);
  setenv("TORCHELASTIC_RUN_ID", "two", 1);
  EXPECT_NE(findRendezvousAddress(findProcessIdentity()).job, found.job);
}

TEST(Processes, SlurmsListNamesTheFirstHost) {
  EXPECT_EQ(firstSlurmHost("login"), "login");
  EXPECT_EQ(firstSlurmHost("login,gpu1"), "login");
  EXPECT_EQ(firstSlurmHost("gpu[07-09,12],login"), "gpu07");
  EXPECT_EQ(firstSlurmHost("gpu[3]"), "gpu3");
  Environment step{{"SLURM_NTASKS", "2"},
                   {"SLURM_PROCID", "1"},
                   {"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_NODELIST", "n[1-2]"}};
  RendezvousAddress found = findRendezvousAddress(findProcessIdentity());
  EXPECT_EQ(found.hosts[0], "n1");
  EXPECT_GE(found.firstPort, 20000);
  EXPECT_LT(found.firstPort, 32000);
}

TEST(Processes, MissingVariablesAreNamed) {
  Environment half{{"WORLD_SIZE", "2"}, {"RANK", "1"}};
  EXPECT_NE(messageOf([] { findRendezvousAddress(findProcessIdentity()); }).find("MASTER_ADDR"),
            std::string::npos);
  unsetenv("RANK");
  EXPECT_NE(messageOf([] { findRendezvousAddress(findProcessIdentity()); }).find("RANK"),
            std::string::npos);
  setenv("PSRT_TIMEOUT", "soon", 1);
  EXPECT_NE(messageOf([] { silenceAllowed(); }).find("\"soon\""), std::string::npos);
}

TEST(Rendezvous, AJobRefusesRanksOfOtherJobsAndStrangers) {
  Socket one = listenAt(0, true), two = listenAt(0, true);
  std::vector<Candidate> both = {{"127.0.0.1", portOf(one)}, {"127.0.0.1", portOf(two)}};
  Socket stranger = connectTo("127.0.0.1", portOf(one), secondsFromNow(1));
  ASSERT_TRUE(sendAll(stranger, "GET / HTTP/1.0\r\n\r\n", 18, secondsFromNow(1)));
  std::vector<Rendezvous> found(4);
  std::vector<std::thread> threads;
  for (int job = 0; job < 2; ++job) {
    threads.emplace_back([&, job] {
      found[2 * job] = hostRendezvous(job ? two : one, makeProcessInfo(0, 2, 100 + job), {}, 10);
    });
    threads.emplace_back([&, job] {
      found[2 * job + 1] = joinRendezvous(both, makeProcessInfo(1, 2, 100 + job), {}, 10, "here");
    });
  }
  for (std::thread &thread : threads)
    thread.join();
  for (int job = 0; job < 2; ++job)
    for (const Rendezvous *rendezvous : {&found[2 * job], &found[2 * job + 1]}) {
      ASSERT_EQ(rendezvous->infos.size(), 2u);
      EXPECT_EQ(rendezvous->infos[1].job, uint64_t(100 + job));
      EXPECT_EQ(rendezvous->infos[0].host, rendezvous->infos[1].host);
    }
}

/// A rank on rank 0's host may have connected through any address of this host. To reach this rank,
/// other ranks must use the address at which they reach rank 0.
TEST(Rendezvous, RanksOnTheHostOfRank0HaveItsAddress) {
  std::string address = ownAddresses()[0];
  if (isLoopback(address))
    GTEST_SKIP() << "this host has no network";
  Socket listener = listenAt(0, false);
  uint16_t port = portOf(listener);
  Rendezvous hub, neighbour, other;
  std::thread first([&] { hub = hostRendezvous(listener, makeProcessInfo(0, 3, 7), {}, 10); });
  std::thread second([&] {
    neighbour = joinRendezvous({{address, port}}, makeProcessInfo(1, 3, 7), {}, 10, "there");
  });
  other = joinRendezvous({{"127.0.0.1", port}}, makeProcessInfo(2, 3, 7), {}, 10, "there");
  first.join();
  second.join();
  EXPECT_EQ(other.addressOf(1), "127.0.0.1");
  EXPECT_EQ(hub.addressOf(1), "127.0.0.1");
  EXPECT_EQ(neighbour.addressOf(2), address);
}

/// Other programs may listen at ports in rank 0's range and never answer. These programs must not
/// delay the rendezvous.
TEST(Rendezvous, SilentListenersCostNoTime) {
  std::vector<Socket> listeners;
  std::vector<Candidate> where;
  for (int i = 0; i < 30; ++i) {
    listeners.push_back(listenAt(0, true));
    where.push_back({"127.0.0.1", portOf(listeners.back())});
  }
  Socket listener = listenAt(0, true);
  where.push_back({"127.0.0.1", portOf(listener)});
  auto begin = std::chrono::steady_clock::now();
  std::thread first([&] { hostRendezvous(listener, makeProcessInfo(0, 2, 7), {}, 10); });
  Rendezvous rendezvous = joinRendezvous(where, makeProcessInfo(1, 2, 7), {}, 10, "there");
  first.join();
  EXPECT_EQ(rendezvous.infos.size(), 2u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(Rendezvous, MissingRanksAreNamed) {
  Socket listener = listenAt(0, true);
  std::string message =
      messageOf([&] { hostRendezvous(listener, makeProcessInfo(0, 3, 5), {}, 0.3); });
  EXPECT_NE(message.find("2 of 3 processes did not connect"), std::string::npos) << message;
  EXPECT_NE(message.find("ranks 1, 2"), std::string::npos) << message;
  uint16_t port = portOf(listener);
  listener.close();
  message = messageOf(
      [&] { joinRendezvous({{"127.0.0.1", port}}, makeProcessInfo(1, 3, 5), {}, 0.3, "there"); });
  EXPECT_NE(message.find("rank 0 of this job was not found"), std::string::npos) << message;
  EXPECT_NE(message.find("refused"), std::string::npos) << message;
}

//===--- secrets ----------------------------------------------------------===//

namespace {

std::string hex(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest)
    text += format("%02x", byte);
  return text;
}

/// A job of `size` ranks that uses a port of this host. A thread runs rank 0's part of the
/// rendezvous.
struct TestJob {
  Socket listener = listenAt(0, true);
  std::vector<Candidate> where = {{"127.0.0.1", portOf(listener)}};
  JobKey key = makeJobKey("a secret of the job", "a job");
  Rendezvous rendezvous;
  std::string failure;
  std::thread thread;

  TestJob(int size, double seconds)
      : thread([this, size, seconds] {
          failure = messageOf([&] {
            rendezvous = hostRendezvous(listener, makeProcessInfo(0, size, 7), key, seconds);
          });
          listener.close();
        }) {}
  std::string join(int rank, int size, const JobKey &itsKey, double seconds,
                   Rendezvous *joined = nullptr) {
    return messageOf([&] {
      Rendezvous rendezvous =
          joinRendezvous(where, makeProcessInfo(rank, size, 7), itsKey, seconds, "there");
      if (joined)
        *joined = std::move(rendezvous);
    });
  }
};

} // namespace

TEST(JobKey, HashesAreThoseOfTheStandards) {
  // From FIPS 180-4: a text of one block, an empty text, a text whose padding needs a second block,
  // and a long text.
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // From RFC 4231: cases 1, 2 and 6. The key of case 6 is longer than a block.
  EXPECT_EQ(hex(hmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(JobKey, DependsOnTheSecretAndOnTheJob) {
  EXPECT_NE(makeJobKey("one", "job").bytes, makeJobKey("two", "job").bytes);
  EXPECT_NE(makeJobKey("one", "job").bytes, makeJobKey("one", "other job").bytes);
  EXPECT_NE(sign({}, "hello", {"ab", "c"}), sign({}, "hello", {"a", "bc"}));
  Environment weak{{"PSRT_JOB_SECRET", "guess me"}};
  EXPECT_NE(messageOf([] { jobSecret(); }).find("PSRT_JOB_SECRET has 8 characters"),
            std::string::npos);
  Environment set{{"WORLD_SIZE", "2"},
                  {"RANK", "1"},
                  {"MASTER_ADDR", "localhost"},
                  {"MASTER_PORT", "29500"},
                  {"PSRT_JOB_SECRET", "0123456789abcdef"}};
  RendezvousAddress first = findRendezvousAddress(findProcessIdentity());
  setenv("PSRT_JOB_SECRET", "0123456789abcdeg", 1);
  RendezvousAddress second = findRendezvousAddress(findProcessIdentity());
  EXPECT_NE(first.key.bytes, second.key.bytes);
  EXPECT_EQ(first.job, second.job) << "the job's id is sent unencrypted, so it must not depend on "
                                      "the secret";
}

TEST(Acceptor, SilentConnectionsCostNoTime) {
  Socket listener = listenAt(0, true);
  std::vector<Socket> silent;
  for (int i = 0; i < 50; ++i)
    silent.push_back(connectTo("127.0.0.1", portOf(listener), secondsFromNow(1)));
  Socket real = connectTo("127.0.0.1", portOf(listener), secondsFromNow(1));
  ASSERT_TRUE(sendAll(real, "hello", 5, secondsFromNow(1)));
  Acceptor acceptor(5, /*greets=*/false);
  auto begin = std::chrono::steady_clock::now();
  std::vector<Arrival> arrivals;
  while (arrivals.empty() && std::chrono::steady_clock::now() < begin + std::chrono::seconds(5))
    arrivals = acceptor.wait(listener, 500);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].message, "hello");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

TEST(Rendezvous, AFalseRankIsRefusedByName) {
  testing::internal::CaptureStderr();
  TestJob testJob(2, 10);
  std::string refused = testJob.join(1, 2, makeJobKey("another secret", "a job"), 0.3);
  EXPECT_NE(refused.find("another secret (PSRT_JOB_SECRET)"), std::string::npos) << refused;
  EXPECT_EQ(testJob.join(1, 2, testJob.key, 10), "");
  testJob.thread.join();
  EXPECT_EQ(testJob.failure, "");
  std::string output = testing::internal::GetCapturedStderr();
  EXPECT_NE(output.find("a process at 127.0.0.1 claims to be rank 1 but does not know this job's"),
            std::string::npos)
      << output;
}

TEST(Rendezvous, TheSecondOfTwoProcessesOfOneRankIsRefused) {
  testing::internal::CaptureStderr();
  TestJob testJob(3, 10);
  Rendezvous joined[2];
  std::thread first([&] { testJob.join(1, 3, testJob.key, 10, &joined[0]); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::string refused = testJob.join(1, 3, testJob.key, 10);
  EXPECT_NE(refused.find("two processes claim rank 1: the second, from 127.0.0.1, was refused"),
            std::string::npos)
      << refused;
  EXPECT_EQ(testJob.join(2, 3, testJob.key, 10, &joined[1]), "");
  first.join();
  testJob.thread.join();
  EXPECT_EQ(testJob.failure, "");
  EXPECT_EQ(joined[0].infos.size(), 3u);
  std::string output = testing::internal::GetCapturedStderr();
  EXPECT_NE(output.find("warning: two processes claim rank 1"), std::string::npos) << output;
}

/// Two jobs use one port, and the ranks with other flags connect first.
TEST(Rendezvous, RanksWithOtherFlagsAreSetAside) {
  TestJob testJob(3, 10);
  std::string refused[3];
  std::vector<std::thread> threads;
  auto join = [&](int rank, uint64_t command, double seconds) {
    threads.emplace_back([&, rank, command, seconds] {
      ProcessInfo info = makeProcessInfo(rank, 3, 7);
      info.command = command;
      std::string message =
          messageOf([&] { joinRendezvous(testJob.where, info, testJob.key, seconds, "there"); });
      if (command)
        refused[rank] = message;
    });
  };
  join(1, 9, 0.7);
  join(2, 9, 0.7);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  join(1, 0, 10);
  join(2, 0, 10);
  for (std::thread &thread : threads)
    thread.join();
  testJob.thread.join();
  EXPECT_EQ(testJob.failure, "");
  for (int rank : {1, 2}) {
    EXPECT_EQ(testJob.rendezvous.infos[rank].command, 0u);
    EXPECT_NE(refused[rank].find("has other flags or another program"), std::string::npos)
        << refused[rank];
  }
}

TEST(Rendezvous, ArrivedRanksLearnWhichAreMissing) {
  TestJob testJob(3, 0.5);
  std::string message = testJob.join(2, 3, testJob.key, 10);
  testJob.thread.join();
  EXPECT_NE(message.find("1 of 3 processes did not connect to rank 0"), std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
}

TEST(Rendezvous, ReceivedInfosAreChecked) {
  ProcessInfo mine = makeProcessInfo(1, 2, 7);
  std::vector<ProcessInfo> infos = {makeProcessInfo(0, 2, 7), mine};
  for (ProcessInfo &info : infos)
    std::strcpy(info.address, "127.0.0.1");
  EXPECT_EQ(findBadProcessInfo(infos, mine), "");
  auto check = [&](auto change, const char *words) {
    std::vector<ProcessInfo> bad = infos;
    change(bad[0]);
    EXPECT_NE(findBadProcessInfo(bad, mine).find(words), std::string::npos)
        << findBadProcessInfo(bad, mine);
  };
  check([](ProcessInfo &info) { info.rank = 1; }, "an entry of rank 1 of 2 instead of rank 0");
  check([](ProcessInfo &info) { info.size = 1 << 30; }, "of rank 0 of 1073741824");
  check([](ProcessInfo &info) { info.port = 9; }, "the invalid port 9 for rank 0");
  check([](ProcessInfo &info) { std::memset(info.address, '1', sizeof(info.address)); },
        "an invalid address for rank 0");
  check([](ProcessInfo &info) { std::strcpy(info.address, "evil.example"); },
        "an invalid address for rank 0");
}
