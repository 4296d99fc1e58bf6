#include "worker/delivery/commit_state.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <optional>

#include "worker/delivery/varint.h"

namespace posthorn::delivery {
namespace {

// Payload, all numbers as varints (7 bits a byte, the lowest first), signed ones zigzag:
//   only when keys are parked: form of their slots (2 list, 3 bitmap), the last offset; list: how many, each as its
//   distance from the one before (from -1) - 1; bitmap: kSlots bits from the lowest of the first byte on
//   form of the finished ones (0 runs, 1 bitmap)
//   runs:    how many, then for each the distance from the end of the one before (or from `next`) and its length - 1
//   bitmap:  distance of its first offset, a finished one, from `next`, bytes, the bits from the lowest of the first on
//   tried, to the end: distance from the one before (or from `next`), attempts, first seen after that of the one before
//   (or after 1970), due after first seen
// then four bytes CRC-32 of `next` (eight bytes, the lowest first) and the payload.
constexpr std::string_view kName = "ph";
constexpr std::string_view kPrefix = "ph1:";
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kMaxPayload = (kMaxCommitMetadata - kPrefix.size()) / 4 * 3 - kChecksumBytes;
constexpr char kRuns = 0;
constexpr char kBitmap = 1;
constexpr char kSlotList = 2;
constexpr char kSlotBitmap = 3;
constexpr std::size_t kSlotBytes = ParkedKeys::kSlots / 8;
constexpr std::int64_t kLastMs = 7'258'118'400'000;  // the year 2200

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    auto value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? (value >> 1) ^ 0xEDB88320U : value >> 1;
    table[i] = value;
  }
  return table;
}
constexpr auto kCrcTable = MakeCrcTable();

constexpr std::array<std::uint8_t, 256> MakeValues() {
  std::array<std::uint8_t, 256> values{};
  for (auto& value : values) value = 64;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}
constexpr auto kValues = MakeValues();

std::uint32_t Checksum(Offset next, std::string_view payload) {
  std::uint32_t crc = ~std::uint32_t{0};
  const auto add = [&crc](std::uint8_t byte) { crc = kCrcTable[(crc ^ byte) & 0xFFU] ^ (crc >> 8); };
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<std::uint8_t>(static_cast<std::uint64_t>(next) >> shift));
  for (const char c : payload) add(static_cast<std::uint8_t>(c));
  return ~crc;
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t j) {
      return j < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[j])} : 0U;
    };
    const auto group = (at(i) << 16) | (at(i + 1) << 8) | at(i + 2);
    text += kAlphabet[(group >> 18) & 63U];
    text += kAlphabet[(group >> 12) & 63U];
    text += i + 1 < bytes.size() ? kAlphabet[(group >> 6) & 63U] : '=';
    text += i + 2 < bytes.size() ? kAlphabet[group & 63U] : '=';
  }
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const auto padding = text.ends_with("==") ? 2U : text.ends_with('=') ? 1U : 0U;
  std::string bytes;
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool pad = i + padding >= text.size();
    const std::uint32_t value = pad ? 0U : kValues[static_cast<unsigned char>(text[i])];
    if (value > 63) return std::nullopt;
    group = (group << 6) | value;
    if (i % 4 != 3) continue;
    bytes += static_cast<char>((group >> 16) & 0xFFU);
    bytes += static_cast<char>((group >> 8) & 0xFFU);
    bytes += static_cast<char>(group & 0xFFU);
    group = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

void AppendDistance(std::string& bytes, Offset distance) {
  assert(distance >= 0);
  AppendNumber(bytes, static_cast<std::uint64_t>(distance));
}

class Reader : public NumberReader {
 public:
  using NumberReader::NumberReader;
  [[nodiscard]] char Peek() const { return left().empty() ? '\0' : left().front(); }

  /// `from` plus the distance read; stays in the range of offsets.
  Offset OffsetAfter(Offset from) {
    const auto distance = Number();
    if (distance > static_cast<std::uint64_t>(std::numeric_limits<Offset>::max() - from)) {
      Fail();
      return from;
    }
    return from + static_cast<Offset>(distance);
  }
  /// A time the given number of milliseconds after `from`, itself a time.
  std::int64_t TimeAfter(std::int64_t from) {
    const auto distance = Signed();
    if (distance < -kLastMs || distance > kLastMs || from + distance < 0 || from + distance > kLastMs) {
      Fail();
      return 0;
    }
    return from + distance;
  }
};

/// Some of the finished ones, encoded.
struct Form {
  std::string bytes;
  Offset covered = 0;  // how many they are
};

constexpr std::size_t kFormOverhead = 1 + 10 + 3;  // form, a distance, a count below 2^21

/// More than a lane finishes ahead on its own: what lies behind a replay. Whatever else is left out, this is not.
constexpr Offset kLongRun = 10'000;

Form Runs(Offset next, const std::vector<OffsetRange>& finished, std::size_t room) {
  const auto length = [](const OffsetRange& run) { return run.end - run.first; };
  const auto longest = std::max_element(finished.begin(), finished.end(),
                                        [&](const auto& a, const auto& b) { return length(a) < length(b); });
  std::string body;
  std::uint64_t count = 0;
  Offset covered = 0;
  Offset at = next;
  const auto add = [&](const OffsetRange& run, std::size_t most) {
    const auto before = body.size();
    AppendDistance(body, run.first - at);
    AppendDistance(body, length(run) - 1);
    if (body.size() + kFormOverhead > most) {
      body.resize(before);
      return false;
    }
    at = run.end;
    covered += length(run);
    ++count;
    return true;
  };
  const auto add_all = [&](std::size_t most) {
    return std::find_if_not(finished.begin(), finished.end(), [&](const auto& run) { return add(run, most); });
  };
  if (const auto left = add_all(room); left <= longest && left != finished.end() && length(*longest) >= kLongRun) {
    constexpr std::size_t kRoomForIt = 20;
    body.clear();
    count = 0;
    covered = 0;
    at = next;
    if (add_all(room - kRoomForIt) <= longest) add(*longest, room);
  }
  Form form{std::string(1, kRuns), covered};
  AppendNumber(form.bytes, count);
  form.bytes += body;
  return form;
}

Form Bitmap(Offset next, const std::vector<OffsetRange>& finished, std::size_t most) {
  const Offset first = finished.front().first;
  const auto most_bits = static_cast<Offset>((most - kFormOverhead) * 8);
  const Offset end = first + std::min(finished.back().end - first, most_bits);
  std::string bits(static_cast<std::size_t>((end - first + 7) / 8), '\0');
  Offset covered = 0;
  for (const auto& run : finished) {
    for (Offset offset = run.first; offset < std::min(run.end, end); ++offset, ++covered) {
      auto& byte = bits[static_cast<std::size_t>((offset - first) / 8)];
      byte = static_cast<char>(static_cast<unsigned char>(byte) | (1U << ((offset - first) % 8)));
    }
  }
  Form form{std::string(1, kBitmap), covered};
  AppendDistance(form.bytes, first - next);
  AppendNumber(form.bytes, bits.size());
  form.bytes += bits;
  return form;
}

std::string EncodeFinished(Offset next, const std::vector<OffsetRange>& finished, std::size_t most) {
  auto runs = Runs(next, finished, most);
  if (finished.empty()) return std::move(runs.bytes);
  auto bitmap = Bitmap(next, finished, most);
  const bool shorter = bitmap.bytes.size() < runs.bytes.size();
  return bitmap.covered > runs.covered || (bitmap.covered == runs.covered && shorter) ? std::move(bitmap.bytes)
                                                                                      : std::move(runs.bytes);
}

std::string EncodeParked(const ParkedKeys::Handover& parked) {
  if (parked.slots.empty()) return {};
  std::string list;
  AppendNumber(list, parked.slots.size());
  int before = -1;
  for (const auto slot : parked.slots) {
    AppendNumber(list, static_cast<std::uint64_t>(slot - before - 1));
    before = slot;
  }
  const bool as_list = list.size() <= kSlotBytes;
  std::string bytes(1, as_list ? kSlotList : kSlotBitmap);
  AppendNumber(bytes, static_cast<std::uint64_t>(parked.last));
  if (as_list) return bytes + list;
  std::string bits(kSlotBytes, '\0');
  for (const auto slot : parked.slots) {
    auto& byte = bits[slot / 8U];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (1U << (slot % 8U)));
  }
  return bytes + bits;
}

void AppendTried(std::string& bytes, Offset next, const std::vector<CommitState::Tried>& tried) {
  Offset at = next;
  std::int64_t seen = 0;
  for (const auto& message : tried) {
    const auto before = bytes.size();
    const auto first_seen = std::clamp<std::int64_t>(message.first_seen_ms, 0, kLastMs);
    AppendDistance(bytes, message.offset - at);
    AppendNumber(bytes, message.attempts);
    AppendSigned(bytes, first_seen - seen);
    AppendSigned(bytes, std::clamp<std::int64_t>(message.due_ms, 0, kLastMs) - first_seen);
    if (bytes.size() > kMaxPayload) {
      bytes.resize(before);
      return;
    }
    at = message.offset;
    seen = first_seen;
  }
}

void AddFinished(std::vector<OffsetRange>& finished, OffsetRange run) {
  if (!finished.empty() && finished.back().end == run.first) {
    finished.back().end = run.end;
  } else {
    finished.push_back(run);
  }
}

bool ReadFinished(Offset next, Reader& reader, std::vector<OffsetRange>& finished) {
  const auto form = reader.Number();
  if (form == kRuns) {
    Offset at = next;
    for (auto count = reader.Number(); count > 0 && reader.ok(); --count) {
      const auto first = reader.OffsetAfter(at);
      const auto last = reader.OffsetAfter(first);
      if (!reader.ok() || last == std::numeric_limits<Offset>::max()) return false;
      AddFinished(finished, {first, last + 1});
      at = last + 1;
    }
    return reader.ok();
  }
  if (form != kBitmap) return false;
  const auto first = reader.OffsetAfter(next);
  const auto bits = reader.Bytes(reader.Number());
  if (!reader.ok() || first > std::numeric_limits<Offset>::max() - static_cast<Offset>(bits.size()) * 8) return false;
  // `first` is finished, or this was not written by us: such a set may need more room than it took.
  if (bits.empty() || (static_cast<unsigned char>(bits.front()) & 1U) == 0) return false;
  for (std::size_t i = 0; i < bits.size() * 8; ++i) {
    if (((static_cast<unsigned char>(bits[i / 8]) >> (i % 8)) & 1U) == 0) continue;
    const auto offset = first + static_cast<Offset>(i);
    AddFinished(finished, {offset, offset + 1});
  }
  return true;
}

bool ReadParked(Reader& reader, ParkedKeys::Handover& parked) {
  if (reader.Peek() != kSlotList && reader.Peek() != kSlotBitmap) return true;
  const auto form = reader.Number();
  parked.last = reader.OffsetAfter(0);
  if (form == kSlotList) {
    std::uint64_t slot = 0;  // the next one possible
    for (auto count = reader.Number(); count > 0 && reader.ok(); --count) {
      const auto distance = reader.Number();
      if (distance >= ParkedKeys::kSlots || slot + distance >= ParkedKeys::kSlots) return false;
      slot += distance;
      parked.slots.push_back(static_cast<std::uint16_t>(slot++));
    }
  } else {
    const auto bits = reader.Bytes(kSlotBytes);
    for (std::size_t i = 0; i < bits.size() * 8; ++i) {
      if (((static_cast<unsigned char>(bits[i / 8]) >> (i % 8)) & 1U) == 0) continue;
      parked.slots.push_back(static_cast<std::uint16_t>(i));
    }
  }
  if (parked.slots.empty()) parked.last = 0;
  return reader.ok();
}

bool ReadTried(Offset next, Reader& reader, std::vector<CommitState::Tried>& tried) {
  Offset at = next;
  std::int64_t seen = 0;
  while (!reader.AtEnd()) {
    CommitState::Tried message;
    message.offset = reader.OffsetAfter(at);
    const auto attempts = reader.Number();
    message.first_seen_ms = reader.TimeAfter(seen);
    message.due_ms = reader.TimeAfter(message.first_seen_ms);
    if (!reader.ok() || attempts > std::numeric_limits<std::uint32_t>::max()) return false;
    if (!tried.empty() && message.offset == at) return false;
    message.attempts = static_cast<std::uint32_t>(attempts);
    at = message.offset;
    seen = message.first_seen_ms;
    tried.push_back(message);
  }
  return reader.ok();
}

}  // namespace

std::string SealCommitState(Offset next, std::string_view payload) {
  std::string bytes(payload);
  const auto checksum = Checksum(next, payload);
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((checksum >> shift) & 0xFFU);
  return std::string(kPrefix) + ToBase64(bytes);
}

std::string EncodeCommitState(Offset next, const CommitState& state) {
  if (state.empty()) return {};
  auto payload = EncodeParked(state.parked);
  payload += EncodeFinished(next, state.finished, kMaxPayload - payload.size());
  AppendTried(payload, next, state.tried);
  return SealCommitState(next, payload);
}

std::variant<CommitState, CommitStateFault> DecodeCommitState(Offset next, std::string_view metadata) {
  if (metadata.empty()) return CommitState{};
  if (metadata.size() > kMaxCommitMetadata || !metadata.starts_with(kName)) return CommitStateFault::kForeign;
  if (!metadata.starts_with(kPrefix)) {
    const auto colon = metadata.find(':');
    const bool version = colon != std::string_view::npos && colon > kName.size() &&
                         metadata.substr(0, colon).find_first_not_of("0123456789", kName.size()) == metadata.npos;
    return version ? CommitStateFault::kOtherVersion : CommitStateFault::kForeign;
  }
  auto bytes = FromBase64(metadata.substr(kPrefix.size()));
  if (next < 0 || !bytes || bytes->size() < kChecksumBytes) return CommitStateFault::kDamaged;
  const std::string_view payload(bytes->data(), bytes->size() - kChecksumBytes);
  if (SealCommitState(next, payload) != metadata) return CommitStateFault::kDamaged;
  CommitState state;
  Reader reader(payload);
  if (!ReadParked(reader, state.parked) || !ReadFinished(next, reader, state.finished) ||
      !ReadTried(next, reader, state.tried)) {
    return CommitStateFault::kDamaged;
  }
  return state;
}

const char* ToString(CommitStateFault fault) {
  switch (fault) {
    case CommitStateFault::kForeign:
      return "not written by Posthorn";
    case CommitStateFault::kOtherVersion:
      return "written by another version";
    case CommitStateFault::kDamaged:
      return "damaged, or left behind at another position";
  }
  return "unknown";
}

}  // namespace posthorn::delivery
