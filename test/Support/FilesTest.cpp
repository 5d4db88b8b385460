// Tests atomic writes of files and private temporary folders.
#include "lib/Support/Files.h"
#include "test/Support/FolderTest.h"
#include <set>
#include <sys/stat.h>

using namespace parashard;
using namespace parashard::support;

namespace fs = std::filesystem;

namespace {

class Files : public FolderTest {
protected:
  Files() {
    put("w", "old");
    put("w.tmp", "mine");
  }
  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      result.insert(entry.path().filename().string());
    return result;
  }
};

TEST_F(Files, OtherFilesAreUnchangedAndTemporaryNamesAreUnique) {
  std::set<std::string> before = names(), during;
  for (int round = 0; round < 2; ++round)
    EXPECT_FALSE(bool(writeAtomically(path("w"), [&](llvm::raw_ostream &os) {
      os << "new";
      EXPECT_EQ(get("w"), round ? "new" : "old");
      during.merge(names());
    })));
  EXPECT_EQ(get("w"), "new");
  EXPECT_EQ(get("w.tmp"), "mine");
  EXPECT_EQ(names(), before);
  EXPECT_EQ(during.size(), before.size() + 2);
}

TEST_F(Files, AFailedWriteKeepsTheOldFile) {
  std::set<std::string> before = names();
  auto fail = [](llvm::raw_ostream &os) {
    os << "new";
    return llvm::createStringError("no");
  };
  EXPECT_EQ(llvm::toString(writeAtomically(path("w"), fail, 0666)), "no");
  EXPECT_EQ(get("w"), "old");
  EXPECT_EQ(names(), before);
}

TEST_F(Files, APrivateFolderIsUniqueAndRemoved) {
  std::string made;
  {
    auto folder = PrivateFolder::create();
    ASSERT_TRUE(bool(folder));
    std::ofstream(folder->name("object.o")) << "x";
    made = folder->getPath().str();
    struct stat info;
    ASSERT_EQ(stat(made.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_NE(llvm::cantFail(PrivateFolder::create()).getPath().str(), made);
  }
  EXPECT_FALSE(fs::exists(made));
}

} // namespace
