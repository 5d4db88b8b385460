// Declares the fixture of tests that write files: one temporary folder per test, removed
// afterwards.
#ifndef PARASHARD_TEST_SUPPORT_FOLDERTEST_H
#define PARASHARD_TEST_SUPPORT_FOLDERTEST_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

namespace parashard {

class FolderTest : public testing::Test {
protected:
  FolderTest() {
    std::string model = std::filesystem::temp_directory_path() / "parashard-test-XXXXXX";
    folder = mkdtemp(model.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return (folder / name).string(); }
  void put(const std::string &name, const std::string &text) const {
    std::ofstream(path(name)) << text;
  }
  std::string get(const std::string &name) const {
    std::ifstream stream(path(name));
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  std::filesystem::path folder;
};

} // namespace parashard

#endif
