// Tests the reader of constraints on plans.
#include "lib/Planner/Constraints.h"
#include <gtest/gtest.h>

using namespace parashard::planner;

namespace {

Choices parse(llvm::StringRef text) { return llvm::cantFail(Choices::parse(text)); }

std::string getError(llvm::StringRef text) {
  llvm::Expected<Choices> choices = Choices::parse(text);
  return choices ? "" : llvm::toString(choices.takeError());
}

TEST(Choices, ParseValuesListsAndRanges) {
  EXPECT_TRUE(parse("*").isFree() && parse("*").allows("anything"));
  EXPECT_TRUE(parse("4").allows(4) && !parse("4").allows(8));
  EXPECT_TRUE(parse("1,2").allows(2) && !parse("1, 2").allows(3));
  EXPECT_TRUE(parse("modules=a,b").allows("modules=a,b"));
  EXPECT_TRUE(parse("none | full").allows("full") && !parse("none|full").allows("selective"));
  EXPECT_TRUE(parse("<=8").allows(8) && !parse("<=8").allows(9) && !parse("<=8").allows("none"));
  EXPECT_TRUE(parse(">=2").allows(2) && !parse(">=2").allows(1));
  EXPECT_TRUE(parse("2..8").allows(2) && parse("2..8").allows(8) && !parse("2..8").allows(1));
}

TEST(Choices, ErrorsQuoteTheText) {
  EXPECT_EQ(getError("<2"), "'<2' is not a range; write a range as <=8, >=2 or 2..8");
  EXPECT_EQ(getError("<=x"), "'<=x': 'x' is not a whole number; write a range as <=8, >=2 or 2..8");
  EXPECT_EQ(getError("8..2"), "'8..2': the range is empty");
  EXPECT_EQ(getError("1||2"), "'1||2' has an empty value; write a list as 1,2,4");
  EXPECT_EQ(getError(""), "'' has an empty value; write a list as 1,2,4");
  EXPECT_EQ(getError("1,,2"), "'1,,2' has an empty value; write a list as 1,2,4");
}

TEST(MeshChoices, KeepTheOrderOfAxes) {
  MeshChoices mesh = llvm::cantFail(parseMeshChoices("tp=<=4,pp=2"));
  ASSERT_EQ(mesh.axes.size(), 2u);
  EXPECT_EQ(mesh.axes[0].first, "tp");
  EXPECT_TRUE(mesh.find("tp")->allows(4) && !mesh.find("tp")->allows(8));
  EXPECT_EQ(mesh.find("dp"), nullptr);
}

TEST(MeshChoices, ErrorsQuoteTheAxis) {
  auto getError = [](llvm::StringRef text) {
    llvm::Expected<MeshChoices> mesh = parseMeshChoices(text);
    return mesh ? "" : llvm::toString(mesh.takeError());
  };
  EXPECT_EQ(getError("ep=2"), "'ep=2': expected pp=SIZES, dp=SIZES or tp=SIZES");
  EXPECT_EQ(getError("tp"), "'tp': expected pp=SIZES, dp=SIZES or tp=SIZES");
  EXPECT_EQ(getError("tp=2,tp=4"), "names the axis tp twice");
  for (llvm::StringRef size : {"tp=auto", "tp=0", "tp=<=0", "tp=2|x"})
    EXPECT_EQ(getError(size),
              ("'" + size +
               "': a size is a whole number from 1 to 1048576, a list 1,2,4, a range "
               "such as <=8, or *")
                  .str());
}

TEST(SearchedValues, ErrorsListTheSearchedValues) {
  auto check = [](llvm::StringRef flag, llvm::StringRef text) {
    llvm::Error error = checkChoices(flag, parse(text));
    return error ? llvm::toString(std::move(error)) : "";
  };
  EXPECT_EQ(check("zero", "1..7"), "");
  EXPECT_EQ(check("batch", ">=3"), "");
  EXPECT_EQ(check("sharding-policy", "tables|my.json"), "");
  EXPECT_EQ(check("zero", ">=4"),
            " '>=4' contains none of the searched values; the search tries 0, 1, 2 and 3");
  EXPECT_EQ(check("num-chunks", "1|5"), " '5' is not searched; the search tries 1, 2, 3 and 4");
  EXPECT_EQ(check("recompute", "budget=1GB"),
            " 'budget=1GB' is not searched; the search tries none, selective and full");
  EXPECT_EQ(check("batch", "<=0"), " '<=0' contains no number from 1 to 1099511627776");
  EXPECT_EQ(check("batch", "2|-9223372036854775808"),
            " takes numbers from 1 to 1099511627776, not '-9223372036854775808'");
  EXPECT_EQ(check("micro-batches", ">=20000"), " '>=20000' contains no number from 1 to 16384");
  EXPECT_EQ(check("sharding-policy", "<=2"), " takes a value or a list, not the range '<=2'");
}

} // namespace
