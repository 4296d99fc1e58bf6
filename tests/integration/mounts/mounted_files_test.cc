// Files below mounts, which come and go without a rename or a write that inotify could tell: bound single files
// (subPath), overlays whose layers are written from outside, volumes that are unmounted. Run by
// tests/system/mount_room.sh.

#include <gmock/gmock.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "config/sources/file_source.h"
#include "tests/unit/config/source_follower.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::config {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Only inotify can tell: the next look of its own is far away. CTest ends what never comes.
constexpr FileSourceOptions kEventsOnly{.settle = milliseconds(20), .poll = milliseconds(1'000'000)};
constexpr FileSourceOptions kLooking{.settle = milliseconds(1), .poll = milliseconds(5)};

SourceFollower Follow(const fs::path& path, FileSourceOptions options) {
  return SourceFollower(std::make_unique<FileSource>(path, options));
}

/// Mounted as long as this lives, or until it is unmounted.
class Mount {
 public:
  Mount(const std::string& what, fs::path where, const char* type, unsigned long flags, const std::string& options = {})
      : where_(std::move(where)) {
    EXPECT_EQ(mount(what.c_str(), where_.c_str(), type, flags, options.empty() ? nullptr : options.c_str()), 0)
        << where_ << ": " << errno;
  }
  ~Mount() { Unmount(); }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  void Unmount() {
    if (!std::exchange(mounted_, false)) return;
    EXPECT_EQ(umount(where_.c_str()), 0) << where_ << ": " << errno;
  }

 private:
  const fs::path where_;
  bool mounted_ = true;
};

TEST(MountedFileTest, AVolumeThatIsUnmountedIsToldAndAwaited) {
  const TempDirectory dir;
  fs::create_directory(dir / "volume");
  for (const char* path : {"volume", "volume/s.yaml"}) {
    Mount volume("none", dir / "volume", "tmpfs", 0);
    dir.Write("volume/s.yaml", "1");
    SourceFollower telling = Follow(dir / path, kEventsOnly);
    SourceFollower looking = Follow(dir / path, kLooking);
    EXPECT_THAT(telling.NextFiles(), ElementsAre(Pair("s.yaml", "1")));
    EXPECT_THAT(looking.NextFiles(), ElementsAre(Pair("s.yaml", "1")));
    volume.Unmount();
    // Below it is an empty directory: no documents, or no such file.
    if (fs::path(path).has_extension()) {
      EXPECT_THAT(telling.NextFailure().why, HasSubstr("s.yaml: No such file"));
      EXPECT_THAT(looking.NextFailure().why, HasSubstr("s.yaml: No such file"));
    } else {
      telling.Await({});
      looking.Await({});
    }
    const Mount back("none", dir / "volume", "tmpfs", 0);
    dir.Write("volume/s.yaml", "2");
    looking.Await({{"s.yaml", "2"}});
  }
}

TEST(MountedFileTest, ABoundFileIsFollowed) {
  const TempDirectory dir;
  fs::create_directory(dir / "there");
  fs::create_directory(dir / "here");
  dir.Write("there/s.yaml", "1");
  dir.Write("here/s.yaml", "");
  Mount bound(dir / "there/s.yaml", dir / "here/s.yaml", nullptr, MS_BIND);
  SourceFollower follower = Follow(dir / "here/s.yaml", kLooking);
  EXPECT_THAT(follower.NextFiles(), ElementsAre(Pair("s.yaml", "1")));
  dir.Write("there/s.yaml", "2");
  follower.Await({{"s.yaml", "2"}});
  // What replaces the file at its source does not come through: the old one is served until it is bound anew.
  dir.Write("there/next", "3");
  fs::rename(dir / "there/next", dir / "there/s.yaml");
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(milliseconds(60))));
  bound.Unmount();
  const Mount anew(dir / "there/s.yaml", dir / "here/s.yaml", nullptr, MS_BIND);
  follower.Await({{"s.yaml", "3"}});
}

TEST(MountedFileTest, AnOverlayWrittenFromOutsideIsFollowed) {
  const TempDirectory dir;
  const Mount layers("none", dir.path(), "tmpfs", 0);  // an overlay cannot lie on another one
  for (const char* name : {"lower", "upper", "work", "merged"}) fs::create_directory(dir / name);
  dir.Write("lower/s.yaml", "1");
  const std::string options = "lowerdir=" + (dir / "lower").string() + ",upperdir=" + (dir / "upper").string() +
                              ",workdir=" + (dir / "work").string();
  const Mount merged("none", dir / "merged", "overlay", 0, options);
  SourceFollower file = Follow(dir / "merged/s.yaml", kLooking);
  SourceFollower directory = Follow(dir / "merged", kLooking);
  EXPECT_THAT(file.NextFiles(), ElementsAre(Pair("s.yaml", "1")));
  EXPECT_THAT(directory.NextFiles(), ElementsAre(Pair("s.yaml", "1")));
  dir.Write("lower/s.yaml", "22");
  file.Await({{"s.yaml", "22"}});
  directory.Await({{"s.yaml", "22"}});
  // Written through the overlay it is another file from then on.
  dir.Write("merged/s.yaml", "333");
  file.Await({{"s.yaml", "333"}});
  directory.Await({{"s.yaml", "333"}});
}

}  // namespace
}  // namespace posthorn::config
