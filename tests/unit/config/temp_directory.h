#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace posthorn::config {

/// A fresh directory, removed with all it holds at the end.
class TempDirectory {
 public:
  TempDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "posthorn-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// In place, as an editor without backups.
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace posthorn::config
