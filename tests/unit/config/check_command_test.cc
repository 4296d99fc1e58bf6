#include "worker/cli/check_command.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "tests/unit/config/config_fixture.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::cli {
namespace {

using config::kDeploymentText;
using config::OneSubscription;
using config::TempDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Result {
  int code = -1;
  std::string out;
  std::string err;
};

Result Check(const CheckArguments& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = RunCheck(arguments, {}, out, err);
  return {code, out.str(), err.str()};
}

TEST(CheckCommandTest, PrintsTheEffectiveConfigurationOfAFile) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription("    max_rate: 5/s\n    headers: { authorization: hunter2 }\n"));
  const Result result = Check({.files = {(dir / "s.yaml").string()}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("max_rate: 5/s"), HasSubstr("timeout: 5s"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(CheckCommandTest, AllFaultsOnStderrAndCodeOne) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription("    max_rate: 5\n    colour: red\n"));
  const Result result = Check({.files = {(dir / "s.yaml").string()}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, AllOf(HasSubstr("s.yaml:5:15: subscriptions[0].max_rate"), HasSubstr("colour: unknown key"),
                                HasSubstr("2 faults")));
}

TEST(CheckCommandTest, SeveralFilesAndDirectoriesAreOneRevision) {
  const TempDirectory dir;
  std::filesystem::create_directory(dir / "d");
  dir.Write("d/a.yaml", OneSubscription(""));
  dir.Write("b.yaml", OneSubscription(""));
  const Result result = Check({.files = {(dir / "d").string(), (dir / "b.yaml").string()}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("a subscription of this name stands in"));
}

TEST(CheckCommandTest, DeploymentFileIsRecognised) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  const Result result = Check({.files = {(dir / "posthorn.yaml").string()}, .overrides = {"shards=3"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("fleet: orders"), HasSubstr("shards: 3")));
}

TEST(CheckCommandTest, ConfigChecksTheDeploymentWithItsSubscriptions) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  dir.Write("s.yaml", OneSubscription("", "instances: 3\n"));
  const std::string file = (dir / "posthorn.yaml").string();
  const Result good = Check({.config = file});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("fleet: orders"), HasSubstr("---\n"), HasSubstr("instances: 3")));
  EXPECT_THAT(good.err, HasSubstr("no slot"));
  EXPECT_THAT(Check({.config = file, .overrides = {"instance=o-2"}}).err, IsEmpty());
  EXPECT_THAT(Check({.config = file, .overrides = {"instance=o-3"}}).err, HasSubstr("outside 0 to 2"));

  dir.Write("s.yaml", OneSubscription("    ttl: 1\n"));
  const Result bad = Check({.config = file, .overrides = {"shards=0"}});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("shards"));
  const Result both = Check({.config = file});
  EXPECT_EQ(both.code, 1);
  EXPECT_THAT(both.err, HasSubstr("s.yaml:5:10: subscriptions[0].ttl"));
}

TEST(CheckCommandTest, MissingFilesAreFaults) {
  EXPECT_EQ(Check({.files = {"/nowhere/s.yaml"}}).code, 1);
  EXPECT_THAT(Check({.files = {"/nowhere/s.yaml"}}).err, HasSubstr("/nowhere/s.yaml: cannot be read: No such file"));
  EXPECT_EQ(Check({.config = "/nowhere/posthorn.yaml"}).code, 1);
}

TEST(CheckCommandTest, WrongUsage) {
  const TempDirectory dir;
  dir.Write("s.yaml", OneSubscription(""));
  EXPECT_EQ(Check({}).code, 2);
  EXPECT_EQ(Check({.files = {"a"}, .config = "b"}).code, 2);
  EXPECT_EQ(Check({.files = {(dir / "s.yaml").string()}, .overrides = {"a=b"}}).code, 2);
}

TEST(CheckCommandTest, CommandLineAndHelp) {
  const TempDirectory dir;
  dir.Write("posthorn.yaml", kDeploymentText);
  CLI::App app;
  int exit_code = -1;
  AddCheckCommand(app, exit_code, {});
  EXPECT_THAT(app.get_subcommand("check")->help(),
              AllOf(HasSubstr("subscriptions[].backoff.initial"), HasSubstr("--set")));
  ::testing::internal::CaptureStdout();
  app.parse("check --set shards=4 --set log.level=debug " + (dir / "posthorn.yaml").string(), false);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), AllOf(HasSubstr("shards: 4"), HasSubstr("level: debug")));
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace posthorn::cli
