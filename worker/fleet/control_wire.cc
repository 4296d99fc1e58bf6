#include "worker/fleet/control_wire.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "worker/delivery/stable_hash.h"
#include "worker/delivery/varint.h"

namespace posthorn::fleet {
namespace {

using ratelimit::ControlRecord;
using ratelimit::Epoch;
using ratelimit::Grant;
using ratelimit::LimitReport;
using ratelimit::Report;

constexpr std::string_view kMagic = "PHC";
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kVersionOfScheduled = 2;  // of a log message with terms that change at a label
constexpr std::uint8_t kReportKind = 'r';
constexpr std::uint8_t kLogKind = 'l';
constexpr std::size_t kHead = 5;
constexpr std::size_t kCheck = 4;
constexpr std::size_t kLongestText = 255;

constexpr std::uint64_t kEpochRecord = 0;
constexpr std::uint64_t kGrantRecord = 1;
constexpr std::uint64_t kGrantLikeBefore = 2;  // of the limit and the terms of the grant before it
constexpr std::uint64_t kGrantScheduled = 3;   // its terms change at a label

std::uint32_t CheckOf(std::string_view bytes) { return static_cast<std::uint32_t>(delivery::StableHash(bytes)); }

class Writer {
 public:
  explicit Writer(std::uint8_t kind, std::uint8_t version = kVersion) : bytes_(kMagic) {
    bytes_ += static_cast<char>(version);
    bytes_ += static_cast<char>(kind);
  }
  void Number(std::uint64_t value) { delivery::AppendNumber(bytes_, value); }
  void Signed(std::int64_t value) { delivery::AppendSigned(bytes_, value); }
  void Fixed(std::uint64_t value, std::size_t size = 8) {
    for (std::size_t i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  [[nodiscard]] std::string Finish() {
    Fixed(CheckOf(bytes_), kCheck);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class Parser : public delivery::NumberReader {
 public:
  using NumberReader::NumberReader;

  std::uint64_t Fixed(std::size_t size = 8) {
    const auto bytes = Bytes(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
    return value;
  }
  std::string Text() {
    const auto size = Number();
    if (size > kLongestText) Fail();
    return std::string(Bytes(size));
  }
  /// Of elements that take at least `least` bytes each.
  std::size_t Count(std::size_t least) {
    const std::uint64_t count = Number();
    return count > left().size() / least ? Fail() : count;
  }
  bool Flag() { return Number() != 0; }
  std::uint32_t Small() {
    const std::uint64_t value = Number();
    return static_cast<std::uint32_t>(value > 0xFFFF'FFFF ? Fail() : value);
  }
  [[nodiscard]] bool finished() const { return ok() && AtEnd(); }
};

std::int64_t Minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t Plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::variant<Parser, WireFault> Open(std::string_view bytes, std::uint8_t kind) {
  if (bytes.size() < kHead + kCheck || !bytes.starts_with(kMagic)) return WireFault::kForeign;
  const auto version = static_cast<std::uint8_t>(bytes[kMagic.size()]);
  if (version != kVersion && version != kVersionOfScheduled) return WireFault::kNewer;
  const auto body = bytes.substr(0, bytes.size() - kCheck);
  if (Parser(bytes.substr(body.size())).Fixed(kCheck) != CheckOf(body)) return WireFault::kDamaged;
  if (static_cast<std::uint8_t>(bytes[kHead - 1]) != kind) return WireFault::kForeign;
  return Parser(body.substr(kHead));
}

void WriteGrant(Writer& out, const Grant& grant, const Grant* before) {
  const bool like_before = before != nullptr && before->limit == grant.limit && before->terms == grant.terms;
  const auto& next = grant.terms.next;
  out.Number(like_before ? kGrantLikeBefore : next ? kGrantScheduled : kGrantRecord);
  if (!like_before) {
    out.Text(grant.limit);
    out.Text(grant.terms.rate.ToString());
    out.Number(grant.terms.slots);
    out.Number(grant.terms.revision);
    if (next) {
      out.Signed(next->from);
      out.Text(next->rate.ToString());
      out.Number(next->slots);
    }
  }
  out.Fixed(grant.to);
  out.Number(grant.id.epoch);
  out.Number(grant.id.sequence);
  out.Signed(grant.first);
  out.Number(grant.shares.size());
  std::int64_t last = 0;
  for (const std::int64_t share : grant.shares) out.Signed(Minus(share, std::exchange(last, share)));
}

ratelimit::MaxRate ReadRate(Parser& in) {
  const auto rate = ratelimit::MaxRate::Parse(in.Text(), nullptr);
  if (!rate) in.Fail();
  return rate.value_or(ratelimit::MaxRate());
}

/// `before`: given for kGrantLikeBefore.
Grant ReadGrant(Parser& in, std::uint64_t kind, const Grant* before) {
  Grant grant;
  if (kind == kGrantLikeBefore) {
    grant.limit = before->limit;
    grant.terms = before->terms;
  } else {
    grant.limit = in.Text();
    grant.terms.rate = ReadRate(in);
    grant.terms.slots = in.Small();
    grant.terms.revision = in.Number();
  }
  if (kind == kGrantScheduled) {
    ratelimit::Terms::Next next;
    next.from = in.Signed();
    next.rate = ReadRate(in);
    next.slots = in.Small();
    grant.terms.next = next;
  }
  grant.to = in.Fixed();
  grant.id.epoch = in.Number();
  grant.id.sequence = in.Number();
  grant.first = in.Signed();
  const auto shares = in.Count(1);
  if (shares > static_cast<std::size_t>(ratelimit::kLongestLease)) in.Fail();
  std::int64_t share = 0;
  for (std::size_t i = 0; i < shares && in.ok(); ++i) grant.shares.push_back(share = Plus(share, in.Signed()));
  return grant;
}

}  // namespace

const char* ToString(WireFault fault) {
  switch (fault) {
    case WireFault::kForeign:
      return "foreign";
    case WireFault::kNewer:
      return "newer";
    case WireFault::kDamaged:
      return "damaged";
  }
  return "";
}

std::string Encode(const ReportMessage& message) {
  const Report& report = message.report;
  Writer out(kReportKind);
  out.Text(message.sender);
  out.Fixed(report.from);
  out.Number(report.claim ? 1 : 0);
  if (report.claim) {
    out.Number(report.claim->slot);
    out.Signed(report.claim->alone_from);
    out.Signed(report.claim->fallback_from);
  }
  out.Number(report.limits.size());
  ratelimit::Label label = 0;
  for (const LimitReport& limit : report.limits) {
    out.Text(limit.limit);
    out.Number(limit.held.epoch);
    out.Number(limit.held.sequence);
    out.Signed(Minus(limit.label, std::exchange(label, limit.label)));
    out.Signed(limit.committed);
    out.Signed(limit.demand);
    out.Signed(limit.used_before);
    out.Number(limit.revision);
    out.Number((limit.starved ? 1U : 0U) | (limit.leaving ? 2U : 0U));
  }
  return out.Finish();
}

std::variant<ReportMessage, WireFault> DecodeReport(std::string_view bytes) {
  auto opened = Open(bytes, kReportKind);
  if (const auto* fault = std::get_if<WireFault>(&opened)) return *fault;
  auto& in = std::get<Parser>(opened);
  ReportMessage message;
  message.sender = in.Text();
  message.report.from = in.Fixed();
  if (in.Flag()) {
    auto& claim = message.report.claim.emplace();
    claim.slot = in.Small();
    claim.alone_from = in.Signed();
    claim.fallback_from = in.Signed();
  }
  constexpr std::size_t kLeast = 9;
  const auto count = in.Count(kLeast);
  ratelimit::Label label = 0;
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    LimitReport limit;
    limit.limit = in.Text();
    limit.held.epoch = in.Number();
    limit.held.sequence = in.Number();
    limit.label = label = Plus(label, in.Signed());
    limit.committed = in.Signed();
    limit.demand = in.Signed();
    limit.used_before = in.Signed();
    limit.revision = in.Number();
    const auto flags = in.Number();
    limit.starved = (flags & 1U) != 0;
    limit.leaving = (flags & 2U) != 0;
    message.report.limits.push_back(std::move(limit));
  }
  if (!in.finished()) return WireFault::kDamaged;
  return message;
}

std::string Encode(const LogMessage& message) {
  const bool scheduled = std::any_of(message.records.begin(), message.records.end(), [](const ControlRecord& record) {
    const auto* grant = std::get_if<Grant>(&record);
    return grant != nullptr && grant->terms.next;
  });
  Writer out(kLogKind, scheduled ? kVersionOfScheduled : kVersion);
  out.Text(message.sender);
  out.Number(message.records.size());
  const Grant* before = nullptr;
  for (const ControlRecord& record : message.records) {
    if (const auto* epoch = std::get_if<Epoch>(&record)) {
      out.Number(kEpochRecord);
      out.Number(epoch->number);
      out.Fixed(epoch->owner);
      out.Number(epoch->renewal ? 1 : 0);
      continue;
    }
    const auto& grant = std::get<Grant>(record);
    WriteGrant(out, grant, before);
    before = &grant;
  }
  return out.Finish();
}

std::variant<LogMessage, WireFault> DecodeLog(std::string_view bytes) {
  auto opened = Open(bytes, kLogKind);
  if (const auto* fault = std::get_if<WireFault>(&opened)) return *fault;
  auto& in = std::get<Parser>(opened);
  LogMessage message;
  message.sender = in.Text();
  constexpr std::size_t kLeast = 11;
  const auto count = in.Count(kLeast);
  message.records.reserve(count);
  const Grant* before = nullptr;
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    const auto kind = in.Number();
    if (kind == kEpochRecord) {
      Epoch epoch;
      epoch.number = in.Number();
      epoch.owner = in.Fixed();
      epoch.renewal = in.Flag();
      message.records.emplace_back(epoch);
    } else if (kind == kGrantRecord || kind == kGrantScheduled || (kind == kGrantLikeBefore && before != nullptr)) {
      message.records.emplace_back(ReadGrant(in, kind, before));
      before = &std::get<Grant>(message.records.back());
    } else {
      in.Fail();
    }
  }
  if (!in.finished()) return WireFault::kDamaged;
  return message;
}

}  // namespace posthorn::fleet
