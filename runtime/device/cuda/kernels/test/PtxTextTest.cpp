// Checks that `ptxOfKernel` returns a complete PTX module that contains only the requested kernel.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace psrt;
using namespace psrt::cuda;

static int count(const std::string &text, const std::string &part) {
  int result = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++result;
  return result;
}

TEST(PtxText, HasOneKernel) {
  std::vector<std::string> names = ptxKernels();
  EXPECT_EQ(int(names.size()), count(psrt_cuda_kernels_ptx, ".entry "));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string &name : names) {
    std::string text = ptxOfKernel(name);
    EXPECT_EQ(count(text, ".entry "), 1) << name;
    EXPECT_EQ(count(text, ".version "), 1) << name;
    EXPECT_EQ(count(text, ".target "), 1) << name;
    EXPECT_NE(text.find(".entry " + name + "("), std::string::npos);
  }
}

TEST(PtxText, FailsForUnknownKernels) {
  EXPECT_THROW(ptxOfKernel("psrt_nothing"), Error);
  EXPECT_THROW(ptxOfKernel("psrt_"), Error);
}

TEST(PtxText, Assembles) {
#ifndef PSRT_PTXAS
  GTEST_SKIP() << "ptxas is not installed";
#else
  std::vector<std::string> names = ptxKernels();
  std::string path = testing::TempDir() + "psrt-kernel.ptx";
  for (size_t i = 0; i < names.size(); i += 9) { // a sample, to save time
    std::ofstream(path) << ptxOfKernel(names[i]);
    EXPECT_EQ(std::system((PSRT_PTXAS " -arch=sm_90 -o /dev/null " + path).c_str()), 0) << names[i];
  }
  std::remove(path.c_str());
#endif
}
