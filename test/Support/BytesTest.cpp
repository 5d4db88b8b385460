// Tests parsing byte counts with decimal (GB) and binary (GiB) units.
#include "lib/Support/Bytes.h"
#include "gtest/gtest.h"

using namespace parashard;
using namespace parashard::support;

TEST(Bytes, Units) {
  for (auto [text, bytes] : std::vector<std::pair<const char *, int64_t>>{{"1000", 1000},
                                                                          {"12GB", 12000000000},
                                                                          {"12GiB", 12884901888},
                                                                          {"1.5KiB", 1536},
                                                                          {"7B", 7},
                                                                          {"2TB", 2000000000000}}) {
    llvm::Expected<int64_t> parsed = parseBytes(text);
    ASSERT_TRUE(bool(parsed)) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(Bytes, RejectsInvalidTexts) {
  for (const char *text : {"", "GB", "0", "-5", "12G", "12gb", "12XB", "1.2.3MB", "99999999TiB"}) {
    llvm::Expected<int64_t> parsed = parseBytes(text);
    EXPECT_FALSE(bool(parsed)) << text;
    llvm::consumeError(parsed.takeError());
  }
}
