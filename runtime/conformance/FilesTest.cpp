// Tests the files that a run writes: exclusive creation, atomic replacement, and the lock of a
// folder.
#include "runtime/core/EntryChecks.h"
#include "runtime/core/NewFile.h"
#include "runtime/core/Status.h"
#include "runtime/data/FolderLock.h"
#include "runtime/data/OutputFile.h"
#include "test/Support/FolderTest.h"
#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace psrt;
namespace fs = std::filesystem;

namespace {

class Files : public parashard::FolderTest {
protected:
  size_t count() const { return std::distance(fs::directory_iterator(folder), {}); }
};

/// Returns the message of the error that `body` throws.
template <typename Body> std::string messageOf(Body &&body) {
  try {
    body();
  } catch (const Error &error) {
    return error.status.message;
  }
  return "";
}

constexpr LockTimes kShort{std::chrono::milliseconds(20), std::chrono::milliseconds(280)};

std::string recordOf(const std::string &boot) {
  return "{\"host\": \"elsewhere\", \"boot\": \"" + boot +
         "\", \"pid_namespace\": \"\", \"pid\": 7, \"start\": \"1\", \"since\": \"yesterday\"}\n";
}

TEST_F(Files, TemporaryNamesAreUnpredictable) {
  NewFile a = createBeside(path("w")), b = createBeside(path("w"));
  ASSERT_GE(a.descriptor, 0);
  ASSERT_GE(b.descriptor, 0);
  EXPECT_NE(a.path, b.path);
  EXPECT_TRUE(isLeftover(fs::path(a.path).filename(), "w"));
  EXPECT_FALSE(isLeftover("w.tmp", "w"));
  EXPECT_FALSE(isLeftover("w.0123456789abcdeg.tmp", "w"));
  close(a.descriptor);
  close(b.descriptor);
}

TEST_F(Files, TheTemporaryNameOfALongNameFits) {
  std::string name(255, 'n');
  OutputFile file(path(name));
  file.commit();
  EXPECT_TRUE(fs::exists(path(name)));
  EXPECT_NE(messageOf([&] { OutputFile(path(name + "n")); }).find("File name too long"),
            std::string::npos);
}

TEST_F(Files, FilesOfOthersAreNotTouchedAndPermissionsStay) {
  put("w.tmp", "mine");
  put("w", "old");
  chmod(path("w").c_str(), 0600);
  {
    OutputFile file(path("w"));
    file.write("new", 3);
    EXPECT_EQ(get("w"), "old");
    file.commit();
  }
  EXPECT_EQ(get("w"), "new");
  EXPECT_EQ(get("w.tmp"), "mine");
  struct stat info;
  ASSERT_EQ(stat(path("w").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(count(), 2u);
}

TEST_F(Files, APublishedFileGrows) {
  OutputFile file(path("log"));
  file.write("a\n", 2);
  file.publish();
  EXPECT_EQ(get("log"), "a\n");
  file.write("b\n", 2);
  file.flush();
  EXPECT_EQ(get("log"), "a\nb\n");
}

TEST_F(Files, ASecondLockNamesTheHolder) {
  FolderLock lock(path("state"));
  std::string message = messageOf([&] { FolderLock(path("state")); });
  EXPECT_NE(message.find("another run saves to this folder: process " + std::to_string(getpid())),
            std::string::npos)
      << message;
  lock.check();
}

TEST_F(Files, ALockRemovesWhatItCreated) {
  {
    FolderLock lock(path("state"));
  }
  EXPECT_EQ(count(), 0u);
  fs::create_directory(path("state"));
  {
    FolderLock lock(path("state"));
  }
  EXPECT_TRUE(fs::is_empty(path("state")));
}

TEST_F(Files, ADeadProcessDoesNotBlock) {
  pid_t child = fork();
  if (child == 0) {
    new FolderLock(folder); // the process is killed while it holds the lock
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(fs::exists(path(".lock")));
  FolderLock lock(folder, kShort);
}

TEST_F(Files, ALockOfAnotherHostIsWatched) {
  put(".lock", recordOf("another-boot"));
  {
    FolderLock lock(folder, kShort);
  } // nobody renews the other host's lock, so this process can take it over
  put(".lock", recordOf("another-boot"));
  std::atomic<bool> ends = false;
  std::thread holder([&] {
    while (!ends) {
      std::this_thread::sleep_for(kShort.beat);
      utimensat(AT_FDCWD, path(".lock").c_str(), nullptr, 0);
    }
  });
  std::string message = messageOf([&] { FolderLock lock(folder, kShort); });
  ends = true;
  holder.join();
  EXPECT_NE(message.find("process 7 on host \"elsewhere\", since yesterday"), std::string::npos)
      << message;
}

TEST_F(Files, ATakenFolderIsNoticed) {
  FolderLock lock(folder);
  fs::remove(path(".lock"));
  lock.check(); // no other run has locked the folder, so check() locks it again
  EXPECT_TRUE(fs::exists(path(".lock")));
  fs::remove(path(".lock"));
  FolderLock other(folder);
  EXPECT_NE(messageOf([&] { lock.check(); }).find("another run saves"), std::string::npos);
}

TEST_F(Files, ALinkIsNotALockFile) {
  put("victim", "mine");
  fs::create_symlink(path("victim"), path(".lock"));
  EXPECT_NE(messageOf([&] { FolderLock lock(folder, kShort); }).find("cannot lock the folder"),
            std::string::npos);
  EXPECT_EQ(get("victim"), "mine");
}

TEST(Crc, EqualsZipArchives) {
  EXPECT_EQ(computeCrc32("", 0), 0u);
  EXPECT_EQ(computeCrc32("123456789", 9), 0xCBF43926u);
  EXPECT_EQ(computeCrc32("The quick brown fox jumps over the lazy dog", 43), 0x414FA339u);
}

} // namespace
