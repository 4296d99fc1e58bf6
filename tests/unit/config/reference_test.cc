#include "config/reference.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "config/option_table.h"

namespace posthorn::config {
namespace {

using ::testing::HasSubstr;

TEST(ReferenceTest, PageInTheTreeIsUpToDate) {
  std::ifstream file(POSTHORN_SOURCE_DIR "/docs/configuration.md", std::ios::binary);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == ReferencePage())
      << "docs/configuration.md is stale: write the output of posthorn_config_reference to it (scripts/regen-docs)";
}

TEST(ReferenceTest, PageAndHelpNameEveryOption) {
  const std::string page = ReferencePage();
  const std::string help = OptionsHelp();
  for (const Document document : {Document::kDeployment, Document::kSubscriptions}) {
    for (const Option& option : Options(document)) {
      EXPECT_THAT(page, HasSubstr("`" + std::string(option.path) + "`"));
      EXPECT_THAT(help, HasSubstr("  " + std::string(option.path) + "  ("));
    }
  }
}

TEST(ReferenceTest, HelpFitsATerminal) {
  std::istringstream lines(OptionsHelp());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace posthorn::config
