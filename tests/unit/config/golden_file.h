#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace posthorn::config {

/// A file below tests/golden: what a real server said, kept as it was.
inline std::string Golden(const std::string& name) {
  std::ifstream file(std::string(POSTHORN_SOURCE_DIR) + "/tests/golden/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace posthorn::config
