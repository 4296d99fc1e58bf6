#include "worker/admin/metric_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace posthorn::admin {
namespace {

TEST(MetricTable, NamesAreUniqueAndFollowPrometheus) {
  std::set<std::string_view> names;
  for (const auto& entry : MetricTable()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(entry.name.starts_with("posthorn_") || entry.name.starts_with("process_")) << entry.name;
    EXPECT_EQ(entry.name.ends_with("_total"), entry.kind == MetricKind::kCounter) << entry.name;
    EXPECT_EQ(entry.unit == "seconds", entry.name.find("_seconds") != std::string_view::npos) << entry.name;
    EXPECT_EQ(entry.unit == "bytes", entry.name.ends_with("_bytes")) << entry.name;
    EXPECT_TRUE(entry.help.ends_with(".")) << entry.name;
    EXPECT_EQ(entry.help.find('|'), std::string_view::npos) << "would break the page's table: " << entry.name;
  }
}

TEST(MetricTable, PageInTheTreeIsTheTable) {
  std::ifstream file(POSTHORN_SOURCE_DIR "/docs/operating.md", std::ios::binary);
  std::ostringstream page;
  page << file.rdbuf();
  std::string replaced = page.str();
  ASSERT_TRUE(ReplaceMetricReference(replaced)) << "the markers are missing in docs/operating.md";
  EXPECT_TRUE(replaced == page.str())
      << "docs/operating.md is stale: run posthorn_metric_reference docs/operating.md (scripts/regen-docs)";
}

TEST(MetricTable, PageWithoutMarkersIsLeftAlone) {
  std::string page = "# Operating\n";
  EXPECT_FALSE(ReplaceMetricReference(page));
  EXPECT_EQ(page, "# Operating\n");
}

}  // namespace
}  // namespace posthorn::admin
