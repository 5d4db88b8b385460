// Where the processes of a job are, and how they find each other.
#include "runtime/bootstrap/Processes.h"
#include "runtime/bootstrap/Star.h"
#include "runtime/core/Status.h"
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace psrt;

namespace {

/// Variables of the environment for one test: those of all launchers are absent but these.
class Environment {
public:
  Environment(std::initializer_list<std::pair<const char *, const char *>> given) {
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID",
                             "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                             "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE",
                             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PSRT_TIMEOUT"})
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

TEST(Processes, EachLauncherSaysWhichOneThisIs) {
  {
    Environment none{};
    EXPECT_EQ(findProcessPlace().size, 1);
  }
  {
    Environment mpirun{
        {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"WORLD_SIZE", "2"}};
    ProcessPlace place = findProcessPlace();
    EXPECT_EQ(place.launcher, ProcessPlace::Mpi);
    EXPECT_EQ(place.rank, 3);
    EXPECT_EQ(place.size, 4);
  }
  {
    Environment batchScript{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}};
    EXPECT_EQ(findProcessPlace().size, 1);
  }
}

/// The side that closes first keeps its end of a connection for a minute: the next job may come
/// before.
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
    EXPECT_FALSE(receiveAll(client, &byte, 1, deadline)); // the server has closed
  }
  Socket again = listenAt(port, true);
  EXPECT_TRUE(again);
  EXPECT_FALSE(listenAt(port, true)) << "two jobs at one port";
}

TEST(Processes, TorchrunsAgentHoldsTheMastersPort) {
  Environment plain{
      {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  Rendezvous place = findRendezvous(findProcessPlace());
  EXPECT_EQ(place.firstPort, 29500);
  EXPECT_EQ(place.ports, 1);
  EXPECT_TRUE(place.local);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  setenv("TORCHELASTIC_RUN_ID", "one", 1);
  place = findRendezvous(findProcessPlace());
  EXPECT_EQ(place.firstPort, 29501);
  EXPECT_EQ(place.ports, 32);
  setenv("TORCHELASTIC_RUN_ID", "two", 1);
  EXPECT_NE(findRendezvous(findProcessPlace()).job, place.job);
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
  Rendezvous place = findRendezvous(findProcessPlace());
  EXPECT_EQ(place.hosts[0], "n1");
  EXPECT_GE(place.firstPort, 20000);
  EXPECT_LT(place.firstPort, 32000);
}

TEST(Processes, WhatIsMissingIsNamed) {
  Environment half{{"WORLD_SIZE", "2"}, {"RANK", "1"}};
  EXPECT_NE(messageOf([] { findRendezvous(findProcessPlace()); }).find("MASTER_ADDR"),
            std::string::npos);
  unsetenv("RANK");
  EXPECT_NE(messageOf([] { findRendezvous(findProcessPlace()); }).find("RANK"), std::string::npos);
  setenv("PSRT_TIMEOUT", "soon", 1);
  EXPECT_NE(messageOf([] { silenceAllowed(); }).find("\"soon\""), std::string::npos);
}

TEST(Star, OneJobDoesNotTakeInAnothersRanksNorStrangers) {
  Socket one = listenAt(0, true), two = listenAt(0, true);
  std::vector<Candidate> both = {{"127.0.0.1", portOf(one)}, {"127.0.0.1", portOf(two)}};
  Socket stranger = connectTo("127.0.0.1", portOf(one), secondsFromNow(1));
  ASSERT_TRUE(sendAll(stranger, "GET / HTTP/1.0\r\n\r\n", 18, secondsFromNow(1)));
  std::vector<Star> stars(4);
  std::vector<std::thread> threads;
  for (int job = 0; job < 2; ++job) {
    threads.emplace_back(
        [&, job] { stars[2 * job] = gatherStar(job ? two : one, makeCard(0, 2, 100 + job), 10); });
    threads.emplace_back(
        [&, job] { stars[2 * job + 1] = joinStar(both, makeCard(1, 2, 100 + job), 10, "here"); });
  }
  for (std::thread &thread : threads)
    thread.join();
  for (int job = 0; job < 2; ++job)
    for (const Star *star : {&stars[2 * job], &stars[2 * job + 1]}) {
      ASSERT_EQ(star->cards.size(), 2u);
      EXPECT_EQ(star->cards[1].job, uint64_t(100 + job));
      EXPECT_EQ(star->cards[0].host, star->cards[1].host);
    }
}

TEST(Star, WhoDoesNotComeIsNamed) {
  Socket listener = listenAt(0, true);
  std::string said = messageOf([&] { gatherStar(listener, makeCard(0, 3, 5), 0.3); });
  EXPECT_NE(said.find("2 of 3 processes have not come"), std::string::npos) << said;
  EXPECT_NE(said.find("ranks 1, 2"), std::string::npos) << said;
  uint16_t port = portOf(listener);
  listener.close();
  said = messageOf([&] { joinStar({{"127.0.0.1", port}}, makeCard(1, 3, 5), 0.3, "there"); });
  EXPECT_NE(said.find("rank 0 of this job was not found"), std::string::npos) << said;
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
}
