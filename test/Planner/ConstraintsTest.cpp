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

TEST(Choices, AreValuesListsAndRanges) {
  EXPECT_TRUE(parse("*").isFree() && parse("*").allows("anything"));
  EXPECT_TRUE(parse("4").allows(4) && !parse("4").allows(8));
  EXPECT_TRUE(parse("none | full").allows("full") && !parse("none|full").allows("selective"));
  EXPECT_TRUE(parse("<=8").allows(8) && !parse("<=8").allows(9) && !parse("<=8").allows("none"));
  EXPECT_TRUE(parse(">=2").allows(2) && !parse(">=2").allows(1));
  EXPECT_TRUE(parse("2..8").allows(2) && parse("2..8").allows(8) && !parse("2..8").allows(1));
}

TEST(Choices, WithErrorsNameTheText) {
  EXPECT_EQ(getError("<=x"), "'<=x': 'x' is not a whole number; a range is <=8, >=2 or 2..8");
  EXPECT_EQ(getError("8..2"), "'8..2': the range is empty");
  EXPECT_EQ(getError("1||2"), "'1||2' has an empty value; a list is 1|2|4");
  EXPECT_EQ(getError(""), "'' has an empty value; a list is 1|2|4");
}

TEST(MeshChoices, KeepTheOrderOfTheirAxes) {
  MeshChoices mesh = llvm::cantFail(parseMeshChoices("tp=<=4,pp=2"));
  ASSERT_EQ(mesh.axes.size(), 2u);
  EXPECT_EQ(mesh.axes[0].first, "tp");
  EXPECT_TRUE(mesh.find("tp")->allows(4) && !mesh.find("tp")->allows(8));
  EXPECT_EQ(mesh.find("dp"), nullptr);
}

TEST(MeshChoices, WithErrorsNameTheAxis) {
  auto getError = [](llvm::StringRef text) {
    llvm::Expected<MeshChoices> mesh = parseMeshChoices(text);
    return mesh ? "" : llvm::toString(mesh.takeError());
  };
  EXPECT_EQ(getError("ep=2"), "'ep=2': expected pp=SIZES, dp=SIZES or tp=SIZES");
  EXPECT_EQ(getError("tp"), "'tp': expected pp=SIZES, dp=SIZES or tp=SIZES");
  EXPECT_EQ(getError("tp=2,tp=4"), "names the axis tp twice");
}

} // namespace
