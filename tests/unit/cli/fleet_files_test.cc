#include "worker/cli/fleet_files.h"

#include <gmock/gmock.h>

#include <sstream>

#include "config/sources/last_good.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Documents(const std::string& name, const std::string& top = {}) {
  return top + "subscriptions:\n  - { name: " + name + ", topic: orders, endpoint: 'http://x/' }\n";
}

class FleetFilesTest : public ::testing::Test {
 protected:
  FleetFilesTest() {
    dir_.Write("posthorn.yaml",
               "fleet: orders\nkafka: { bootstrap.servers: 127.0.0.1:1 }\n"
               "subscriptions: { file: s.yaml, cache: cache }\n");
  }
  void Keep(const std::string& text) {
    const config::KeptRevision kept{"file " + (dir_ / "s.yaml").string(), "", {}, {{"s.yaml", text}}};
    ASSERT_EQ(config::LastGood(dir_ / "cache", "orders").Keep(&kept, nullptr), "");
  }
  // The one subscription's name; empty: none could be had.
  std::string Load() {
    std::ostringstream err;
    const auto files = LoadFleetFiles({(dir_ / "posthorn.yaml").string(), {}}, {}, err);
    err_ = err.str();
    return files ? files->subscriptions.subscriptions.at(0).name : std::string();
  }
  const config::TempDirectory dir_;
  std::string err_;
};

TEST_F(FleetFilesTest, TheSourcesRevisionComesFirst) {
  Keep(Documents("kept"));
  dir_.Write("s.yaml", Documents("newest", "effective_at: 2020-01-01T00:00:00Z\n"));
  EXPECT_EQ(Load(), "newest");
  EXPECT_THAT(err_, IsEmpty());
}

TEST_F(FleetFilesTest, WhatWasInForceLastIsUsedWhereTheSourceIsAwayOrFaulty) {
  EXPECT_EQ(Load(), "");
  EXPECT_THAT(err_, HasSubstr("No such file"));
  Keep(Documents("kept"));
  EXPECT_EQ(Load(), "kept");
  EXPECT_THAT(err_, AllOf(HasSubstr("No such file"), HasSubstr("`cache`")));
  dir_.Write("s.yaml", Documents("newest", "colour: red\n"));
  EXPECT_EQ(Load(), "kept");
  EXPECT_THAT(err_, AllOf(HasSubstr("colour"), HasSubstr("`cache`")));
}

TEST_F(FleetFilesTest, WhatIsYetToComeIsNotInForce) {
  dir_.Write("s.yaml", Documents("newest", "effective_at: 2150-01-01T00:00:00Z\n"));
  EXPECT_EQ(Load(), "newest");
  EXPECT_THAT(err_, HasSubstr("in force from 2150-01-01"));
  Keep(Documents("kept"));
  EXPECT_EQ(Load(), "kept");
}

}  // namespace
}  // namespace posthorn::cli
