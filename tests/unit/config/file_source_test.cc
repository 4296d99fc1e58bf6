#include "config/sources/file_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "config/sources/file_reader.h"
#include "config/sources/path_watch.h"
#include "tests/unit/config/temp_directory.h"

namespace posthorn::config {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Longer than any test may take: what is awaited is the event, and CTest ends what never comes.
constexpr milliseconds kPatience{120'000};

// Only inotify can tell: the next look of its own is far away.
constexpr FileSourceOptions kEventsOnly{.settle = milliseconds(20), .poll = milliseconds(1'000'000)};
constexpr FileSourceOptions kPollOnly{.settle = milliseconds(1), .poll = milliseconds(5), .inotify = false};

// Asks a source again and again, as the watch does, and keeps what was last read.
class Follower {
 public:
  Follower(const fs::path& path, FileSourceOptions options) : source_(path, options) {}

  Outcome Next(milliseconds wait = kPatience) {
    Outcome outcome = source_.Next(have_, wait, std::stop_token());
    if (const Changed* changed = std::get_if<Changed>(&outcome)) {
      have_ = changed->snapshot.revision;
      files_ = changed->snapshot.files;
    }
    return outcome;
  }

  // Until `name` holds `text`; revisions and failures in between are what a change in steps may show.
  void Await(const std::string& name, const std::string& text) {
    while (!files_.contains(name) || files_[name] != text) Next();
  }

  std::string AwaitFailure() {
    for (;;) {
      const Outcome outcome = Next();
      if (const Failed* failed = std::get_if<Failed>(&outcome)) return failed->why;
    }
  }

  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  FileSource source_;
  std::string have_;
  std::map<std::string, std::string> files_;
};

void MakeConfigMap(const TempDirectory& dir, const std::string& stamp,
                   const std::map<std::string, std::string>& files) {
  fs::create_directory(dir / stamp);
  for (const auto& [name, text] : files) dir.Write(stamp + "/" + name, text);
}

void SwapConfigMap(const TempDirectory& dir, const std::string& stamp) {
  fs::create_directory_symlink(stamp, dir / "..data_tmp");
  fs::rename(dir / "..data_tmp", dir / "..data");
}

// A program as people run it; those of the base system alone: editors are imitated.
void Run(const TempDirectory& dir, const std::string& command) {
  ASSERT_EQ(std::system(("cd '" + dir.path().string() + "' && " + command).c_str()), 0) << command;
}

struct Change {
  const char* name;
  std::function<void(const TempDirectory&)> make;
};

// Each leaves `new` in f.yaml, in a way of its own.
const std::vector<Change> kChanges{
    {"Redirected", [](const TempDirectory& d) { Run(d, "printf new > f.yaml"); }},
    {"CopyOver", [](const TempDirectory& d) { Run(d, "printf new > x.tmp && cp x.tmp f.yaml"); }},
    {"RenameOver", [](const TempDirectory& d) { Run(d, "printf new > x.tmp && mv x.tmp f.yaml"); }},
    {"SedInPlace", [](const TempDirectory& d) { Run(d, "sed -i s/old/new/ f.yaml"); }},
    {"LinkSetAnew", [](const TempDirectory& d) { Run(d, "printf new > target && ln -sf target f.yaml"); }},
    {"Vim",
     [](const TempDirectory& d) {
       d.Write("4913", "");
       fs::remove(d / "4913");
       fs::rename(d / "f.yaml", d / "f.yaml~");
       d.Write("f.yaml", "new");
       fs::remove(d / "f.yaml~");
     }},
    {"Emacs",
     [](const TempDirectory& d) {
       fs::create_symlink("nobody@host.1", d / ".#f.yaml");
       fs::rename(d / "f.yaml", d / "f.yaml~");
       d.Write("f.yaml", "new");
       fs::remove(d / ".#f.yaml");
     }},
    {"RemoveAndCreate",
     [](const TempDirectory& d) {
       fs::remove(d / "f.yaml");
       d.Write("f.yaml", "new");
     }},
    {"MappedWrite",
     [](const TempDirectory& d) {
       const int fd = open((d / "f.yaml").c_str(), O_RDWR);
       void* memory = mmap(nullptr, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
       std::string_view("new").copy(static_cast<char*>(memory), 3);
       munmap(memory, 3);
       close(fd);
     }},
    {"DirectoryReplaced",
     [](const TempDirectory& d) {
       fs::rename(d.path(), d.path().string() + ".old");
       fs::create_directory(d.path());
       d.Write("f.yaml", "new");
       fs::remove_all(d.path().string() + ".old");
     }},
    {"DirectorySwappedByRename",
     [](const TempDirectory& d) {
       const std::string other = d.path().string() + ".new";
       fs::create_directory(other);
       std::ofstream(other + "/f.yaml") << "new";
       fs::rename(d.path(), d.path().string() + ".old");
       fs::rename(other, d.path());
       fs::remove_all(d.path().string() + ".old");
     }},
    {"DirectoryRemovedAndBack",
     [](const TempDirectory& d) {
       fs::remove_all(d.path());
       fs::create_directory(d.path());
       d.Write("f.yaml", "new");
     }},
};

// By looking alone: also what there is on file systems where inotify tells nothing (FUSE, NFS).
class FileChangeTest : public ::testing::TestWithParam<std::tuple<Change, bool, bool>> {};

TEST_P(FileChangeTest, IsSeen) {
  const auto& [change, directory, events] = GetParam();
  const TempDirectory dir;
  dir.Write("f.yaml", "old");
  Follower follower(directory ? dir.path() : dir / "f.yaml", events ? kEventsOnly : kPollOnly);
  follower.Await("f.yaml", "old");
  change.make(dir);
  follower.Await("f.yaml", "new");
  // And still: none of the ways makes it deaf.
  dir.Write("f.yaml", "newer");
  follower.Await("f.yaml", "newer");
}

INSTANTIATE_TEST_SUITE_P(EveryWay, FileChangeTest,
                         ::testing::Combine(::testing::ValuesIn(kChanges), ::testing::Bool(), ::testing::Bool()),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) +
                                  (std::get<1>(each.param) ? "InDirectory" : "OfFile") +
                                  (std::get<2>(each.param) ? "ByEvent" : "ByPoll");
                         });

TEST(FileSourceTest, FirstAnswerIsAtOnceAndThenOnlyChanges) {
  const TempDirectory dir;
  dir.Write("s.yaml", "a");
  FileSource source(dir / "s.yaml", kEventsOnly);
  const Outcome first = source.Next("", kPatience, {});
  ASSERT_TRUE(std::holds_alternative<Changed>(first));
  const RawSnapshot& snapshot = std::get<Changed>(first).snapshot;
  EXPECT_THAT(snapshot.files, ElementsAre(Pair("s.yaml", "a")));
  EXPECT_FALSE(snapshot.revision.empty());
  EXPECT_EQ(snapshot.number, "");
  EXPECT_TRUE(std::holds_alternative<Unchanged>(source.Next(snapshot.revision, milliseconds(0), {})));
  EXPECT_TRUE(std::holds_alternative<Changed>(source.Next("", milliseconds(0), {})));
  EXPECT_TRUE(std::holds_alternative<Changed>(source.Next("another", milliseconds(0), {})));
}

TEST(FileSourceTest, SameContentIsNoChange) {
  const TempDirectory dir;
  dir.Write("s.yaml", "a");
  Follower follower(dir / "s.yaml", kEventsOnly);
  follower.Await("s.yaml", "a");
  dir.Write("s.yaml", "a");
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next(milliseconds(60))));
}

TEST(FileSourceTest, DirectoryTakesDocumentsOnly) {
  const TempDirectory dir;
  for (const char* name : {"b.yaml", "a.yml", "c.json", ".hidden.yaml", "b.yaml~", "#b.yaml#", ".b.yaml.swp",
                           "README.md", "b.yaml.bak", "yaml"}) {
    dir.Write(name, name);
  }
  fs::create_directory(dir / "d.yaml");
  Follower follower(dir.path(), kEventsOnly);
  follower.Next();
  EXPECT_THAT(follower.files(),
              ElementsAre(Pair("a.yml", "a.yml"), Pair("b.yaml", "b.yaml"), Pair("c.json", "c.json")));
  dir.Write("d.json", "d");
  follower.Await("d.json", "d");
  fs::remove(dir / "a.yml");
  while (follower.files().contains("a.yml")) follower.Next();
  EXPECT_THAT(follower.files(), ElementsAre(Pair("b.yaml", "b.yaml"), Pair("c.json", "c.json"), Pair("d.json", "d")));
}

TEST(FileSourceTest, EmptyDirectoryIsAnEmptySnapshot) {
  const TempDirectory dir;
  FileSource source(dir.path(), kEventsOnly);
  const Outcome outcome = source.Next("", kPatience, {});
  ASSERT_TRUE(std::holds_alternative<Changed>(outcome));
  EXPECT_TRUE(std::get<Changed>(outcome).snapshot.files.empty());
}

TEST(FileSourceTest, ConfigMapSwapOfDirectoryAndOfFile) {
  const TempDirectory dir;
  MakeConfigMap(dir, "..2026_1", {{"a.yaml", "1"}, {"b.yaml", "1"}});
  SwapConfigMap(dir, "..2026_1");
  fs::create_symlink("..data/a.yaml", dir / "a.yaml");
  fs::create_symlink("..data/b.yaml", dir / "b.yaml");
  Follower directory(dir.path(), kEventsOnly);
  Follower file(dir / "a.yaml", kEventsOnly);
  directory.Await("a.yaml", "1");
  file.Await("a.yaml", "1");
  for (int i = 2; i < 6; ++i) {
    const std::string text = std::to_string(i);
    MakeConfigMap(dir, "..2026_" + text, {{"a.yaml", text}, {"b.yaml", text}});
    SwapConfigMap(dir, "..2026_" + text);
    fs::remove_all(dir / ("..2026_" + std::to_string(i - 1)));
    directory.Await("a.yaml", text);
    EXPECT_THAT(directory.files(), ElementsAre(Pair("a.yaml", text), Pair("b.yaml", text)));
    file.Await("a.yaml", text);
  }
}

TEST(FileSourceTest, LinksOnTheWayAreFollowed) {
  const TempDirectory dir;
  fs::create_directories(dir / "one/deep");
  fs::create_directories(dir / "two/deep");
  dir.Write("one/deep/f.yaml", "1");
  dir.Write("two/deep/f.yaml", "2");
  fs::create_directory_symlink(dir / "one", dir / "current");
  Follower follower(dir / "current/deep/../deep/f.yaml", kEventsOnly);
  follower.Await("f.yaml", "1");
  fs::create_directory_symlink("two", dir / "next");
  fs::rename(dir / "next", dir / "current");
  follower.Await("f.yaml", "2");
  dir.Write("two/deep/f.yaml", "3");
  follower.Await("f.yaml", "3");
}

TEST(FileSourceTest, LinkedDocumentWrittenElsewhere) {
  const TempDirectory dir;
  fs::create_directory(dir / "watched");
  fs::create_directory(dir / "elsewhere");
  dir.Write("elsewhere/x", "1");
  fs::create_symlink(dir / "elsewhere/x", dir / "watched/f.yaml");
  Follower follower(dir / "watched", kEventsOnly);
  follower.Await("f.yaml", "1");
  dir.Write("elsewhere/x", "2");
  follower.Await("f.yaml", "2");
}

TEST(FileSourceTest, HardLinkWrittenElsewhereIsSeenByLooking) {
  const TempDirectory dir;
  fs::create_directory(dir / "watched");
  dir.Write("x", "1");
  fs::create_hard_link(dir / "x", dir / "watched/f.yaml");
  Follower follower(dir / "watched", {.settle = milliseconds(1), .poll = milliseconds(5)});
  follower.Await("f.yaml", "1");
  dir.Write("x", "2");
  follower.Await("f.yaml", "2");
}

TEST(FileSourceTest, MissingIsToldOnceThenAwaited) {
  const TempDirectory dir;
  FileSource source(dir / "late/deep/s.yaml", kEventsOnly);
  const Outcome first = source.Next("", kPatience, {});
  ASSERT_TRUE(std::holds_alternative<Failed>(first));
  EXPECT_THAT(std::get<Failed>(first).why, HasSubstr("s.yaml: No such file"));
  EXPECT_TRUE(std::get<Failed>(first).source_waits);
  EXPECT_TRUE(std::holds_alternative<Failed>(source.Next("", milliseconds(0), {})));
  auto next = std::async(std::launch::async, [&] { return source.Next("", kPatience, {}); });
  fs::create_directory(dir / "late");
  fs::create_directory(dir / "late/deep");
  dir.Write("late/deep/s.yaml", "a");
  EXPECT_TRUE(std::holds_alternative<Changed>(next.get()));
}

TEST(FileSourceTest, VanishedAndBackWithTheSameContentIsARecovery) {
  const TempDirectory dir;
  dir.Write("s.yaml", "a");
  Follower follower(dir / "s.yaml", kEventsOnly);
  follower.Await("s.yaml", "a");
  fs::rename(dir / "s.yaml", dir / "away");
  EXPECT_THAT(follower.AwaitFailure(), HasSubstr("No such file"));
  fs::rename(dir / "away", dir / "s.yaml");
  EXPECT_TRUE(std::holds_alternative<Unchanged>(follower.Next()));
}

TEST(FileSourceTest, DanglingLinkAndOtherThingsAreFailures) {
  const TempDirectory dir;
  fs::create_symlink("nowhere", dir / "f.yaml");
  EXPECT_THAT(Follower(dir.path(), kEventsOnly).AwaitFailure(), HasSubstr("f.yaml: No such file"));
  fs::create_symlink("loop.yaml", dir / "loop.yaml");
  EXPECT_THAT(Follower(dir / "loop.yaml", kEventsOnly).AwaitFailure(), HasSubstr("symbolic links"));
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Follower(dir / "pipe", kEventsOnly).AwaitFailure(), HasSubstr("not a regular file"));
}

// Half a file may be a valid one, so a reading waits for the writer to close.
TEST(PathWatchTest, KnowsWhoWritesAndHasNotClosed) {
  const TempDirectory dir;
  dir.Write("s.yaml", "old");
  PathWatch watch(true);
  watch.Follow((dir / "s.yaml").string());
  EXPECT_FALSE(watch.Drain());
  std::ofstream file(dir / "s.yaml", std::ios::trunc);
  file << "half" << std::flush;
  EXPECT_TRUE(watch.Drain());
  EXPECT_TRUE(watch.Writing());
  file.close();
  EXPECT_TRUE(watch.Drain());
  EXPECT_FALSE(watch.Writing());
  dir.Write("another.yaml", "x");
  EXPECT_FALSE(watch.Drain());
}

// The instances of a user, or the descriptors of a process, are used up.
TEST(PathWatchTest, WithoutAnInstanceItIsSilent) {
  const TempDirectory dir;
  dir.Write("s.yaml", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  PathWatch watch(true);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(watch.descriptor(), -1);
  watch.Follow((dir / "s.yaml").string());
  dir.Write("s.yaml", "new");
  EXPECT_FALSE(watch.Drain());
  EXPECT_FALSE(watch.Writing());
}

// The worst of writers: empties the file and fills it piece by piece. While it has the file open it is waited for.
TEST(FileSourceTest, NoRevisionOfAFileWrittenInPlaceIsTorn) {
  const TempDirectory dir;
  dir.Write("f.yaml", "a");
  Follower follower(dir / "f.yaml", kEventsOnly);
  follower.Await("f.yaml", "a");
  for (int i = 0; i < 20; ++i) {
    const std::string piece(3000, static_cast<char>('b' + i));
    std::thread writer([&] {
      std::ofstream file(dir / "f.yaml", std::ios::binary | std::ios::trunc);
      for (int part = 0; part < 5; ++part) file << piece << std::flush;
    });
    ASSERT_TRUE(std::holds_alternative<Changed>(follower.Next()));
    EXPECT_EQ(follower.files().at("f.yaml"), piece + piece + piece + piece + piece);
    writer.join();
  }
}

TEST(FileSourceTest, StopEndsAWaitingCall) {
  const TempDirectory dir;
  dir.Write("s.yaml", "a");
  FileSource source(dir / "s.yaml", kEventsOnly);
  const std::string have = std::get<Changed>(source.Next("", kPatience, {})).snapshot.revision;
  for (int i = 0; i < 3; ++i) {
    std::stop_source stop;
    auto next = std::async(std::launch::async, [&] { return source.Next(have, kPatience, stop.get_token()); });
    stop.request_stop();
    EXPECT_TRUE(std::holds_alternative<Stopped>(next.get()));
  }
  // A stop is the call's, not the source's.
  EXPECT_TRUE(std::holds_alternative<Unchanged>(source.Next(have, milliseconds(0), {})));
}

TEST(FileSourceTest, StopEndsACallForWhatIsMissing) {
  const TempDirectory dir;
  FileSource source(dir / "s.yaml", kEventsOnly);
  EXPECT_TRUE(std::holds_alternative<Failed>(source.Next("", kPatience, {})));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(std::holds_alternative<Stopped>(source.Next("", kPatience, stop.get_token())));
}

// A pair of files that must be of one revision, swapped as Kubernetes does while it is read.
TEST(FileSourceTest, NoReadingMixesTwoRevisions) {
  const TempDirectory dir;
  MakeConfigMap(dir, "..0", {{"a.yaml", "0"}, {"b.yaml", "0"}});
  SwapConfigMap(dir, "..0");
  fs::create_symlink("..data/a.yaml", dir / "a.yaml");
  fs::create_symlink("..data/b.yaml", dir / "b.yaml");
  std::atomic<bool> done = false;
  std::atomic<int> swaps = 0;
  std::thread writer([&] {
    for (int i = 1; !done; ++i) {
      const std::string text(static_cast<std::size_t>(i % 7 + 1), static_cast<char>('a' + i % 26));
      const std::string stamp = ".." + std::to_string(i);
      MakeConfigMap(dir, stamp, {{"a.yaml", text}, {"b.yaml", text}});
      SwapConfigMap(dir, stamp);
      fs::remove_all(dir / (".." + std::to_string(i - 1)));
      ++swaps;
    }
  });
  int whole = 0;
  while (whole < 2000 || swaps < 200) {
    const Reading reading = ReadDocuments(dir.path().string());
    if (reading.state != Reading::State::kRead) continue;
    // The old volume is deleted file by file after the swap: what is left of it is no revision either.
    ASSERT_EQ(reading.files.size(), 2u);
    ASSERT_EQ(reading.files.at("a.yaml"), reading.files.at("b.yaml"));
    ++whole;
  }
  done = true;
  writer.join();
}

TEST(FileSourceTest, NoReadingOfARenamedFileIsTorn) {
  const TempDirectory dir;
  dir.Write("f.yaml", std::string(50'000, 'a'));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; !done; ++i) {
      dir.Write("tmp", std::string(static_cast<std::size_t>(1 + i % 5) * 50'000, static_cast<char>('a' + i % 26)));
      fs::rename(dir / "tmp", dir / "f.yaml");
    }
  });
  for (int whole = 0; whole < 300;) {
    const Reading reading = ReadDocuments((dir / "f.yaml").string());
    if (reading.state != Reading::State::kRead) continue;
    const std::string& text = reading.files.at("f.yaml");
    ASSERT_EQ(text.size() % 50'000, 0u);
    ASSERT_EQ(text.find_first_not_of(text.front()), std::string::npos);
    ++whole;
  }
  done = true;
  writer.join();
}

}  // namespace
}  // namespace posthorn::config
