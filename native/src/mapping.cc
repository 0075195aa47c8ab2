// Mapping payloads, which of their pages are in memory, and getting them there.
#include "mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "args.h"
#include "exports.h"
#include "jobs.h"
#include "progress.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace weightroom {
namespace {

constexpr long kCacheStat = 451;  // the same number on every architecture; Linux 6.5
constexpr uint64_t kPrefaultStep = uint64_t{64} << 20;
constexpr uint64_t kMincoreStep = uint64_t{1} << 30;
constexpr uint64_t kMaxBuckets = 4096;

const napi_type_tag kMappingTag = {0x6d61707061676573, 0x776569676874726f};

uint64_t PageBytes() {
  static const auto bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

uint64_t WholePages(uint64_t bytes) { return (bytes + PageBytes() - 1) / PageBytes() * PageBytes(); }

Napi::Value MapReadOnly(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const uint64_t length = WholePages(SafeIntegerArg(info[1], "length", kLargestSafeInteger / 2));
  if (length == 0) BadRange(info.Env(), "length must not be 0");
  void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) Fail("mmap");
  auto external = Napi::External<Mapping>::New(info.Env(), new Mapping{static_cast<uint8_t*>(address), length},
                                               [](Napi::Env, Mapping* mapping) { delete mapping; });
  external.TypeTag(&kMappingTag);
  return external;
}

Napi::Value Unmap(const Napi::CallbackInfo& info) {
  Mapping& mapping = MappingArg(info[0]);
  if (::munmap(mapping.address, mapping.length) != 0) Fail("munmap");
  mapping.address = nullptr;
  return info.Env().Undefined();
}

// Share of pages in memory, bucket by bucket.
std::vector<double> ResidentShares(MappedRange range, uint64_t buckets) {
  const uint64_t pages = range.length / PageBytes();
  std::vector<uint64_t> counts(buckets), totals(buckets);
  std::vector<unsigned char> states(std::min(range.length, kMincoreStep) / PageBytes());
  for (uint64_t at = 0; at < range.length; at += kMincoreStep) {
    const uint64_t length = std::min(kMincoreStep, range.length - at);
    if (::mincore(range.address + at, length, states.data()) != 0) Fail("mincore");
    for (uint64_t i = 0; i < length / PageBytes(); i++) {
      const auto bucket = static_cast<uint64_t>(static_cast<unsigned __int128>(at / PageBytes() + i) * buckets / pages);
      counts[bucket] += states[i] & 1;
      totals[bucket]++;
    }
  }
  std::vector<double> shares(buckets);
  for (uint64_t i = 0; i < buckets; i++) {
    shares[i] = totals[i] == 0 ? 0 : static_cast<double>(counts[i]) / static_cast<double>(totals[i]);
  }
  return shares;
}

Napi::Value Residency(const Napi::CallbackInfo& info) {
  const MappedRange range = RangeArgs(info, 0, 1, 2);
  const uint64_t pages = range.length / PageBytes();
  const uint64_t buckets = std::min(pages, SafeIntegerArg(info[3], "buckets", kMaxBuckets));
  if (buckets == 0) BadRange(info.Env(), "buckets must not be 0");
  return {info.Env(), RunJob(
                          info.Env(), {info[0]}, [=] { return ResidentShares(range, buckets); },
                          [](napi_env env, const std::vector<double>& shares) -> napi_value {
                            napi_value array = nullptr;
                            if (napi_create_array_with_length(env, shares.size(), &array) != napi_ok) return nullptr;
                            for (uint32_t i = 0; i < shares.size(); i++) {
                              napi_value share = nullptr;
                              napi_create_double(env, shares[i], &share);
                              napi_set_element(env, array, i, share);
                            }
                            return array;
                          })};
}

struct CacheRange {
  uint64_t offset;
  uint64_t length;
};

struct CacheStatistics {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// cachestat(2): without mapping anything, and true for files of others too. Null where the kernel lacks it.
Napi::Value PageCache(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const CacheRange range{SafeIntegerArg(info[1], "offset"), SafeIntegerArg(info[2], "length")};
  CacheStatistics found{};
  if (::syscall(kCacheStat, fd, &range, &found, 0) != 0) {
    if (errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM) return info.Env().Null();
    Fail("cachestat");
  }
  const auto bytes = [](uint64_t pages) { return static_cast<double>(pages * PageBytes()); };
  auto result = Napi::Object::New(info.Env());
  result.Set("cachedBytes", bytes(found.cached));
  result.Set("dirtyBytes", bytes(found.dirty));
  result.Set("writebackBytes", bytes(found.writeback));
  return result;
}

void TouchPages(MappedRange range) {
  for (uint64_t at = 0; at < range.length; at += PageBytes()) {
    static_cast<void>(*static_cast<volatile uint8_t*>(range.address + at));
  }
}

// A page past the file's end fails here (EFAULT) instead of killing the process. Only where the kernel is older
// than 5.14 the pages are touched, which such a page would not survive: payloads of a lease don't shrink.
void Prefault(MappedRange range, ProgressView progress) {
  for (uint64_t at = 0; at < range.length; at += kPrefaultStep) {
    progress.ThrowIfCanceled("madvise");
    const MappedRange step{range.address + at, std::min(kPrefaultStep, range.length - at)};
    if (Retry([&] { return ::madvise(step.address, step.length, MADV_POPULATE_READ); }) != 0) {
      if (errno != EINVAL) Fail("madvise");
      TouchPages(step);
    }
    progress.Add(step.length);
  }
}

Napi::Value PrefaultRange(const Napi::CallbackInfo& info) {
  const MappedRange range = RangeArgs(info, 0, 1, 2);
  std::vector<napi_value> keep = {info[0]};
  int64_t* progress = ProgressArg(info[3]);
  if (progress != nullptr) keep.push_back(info[3]);
  return {info.Env(), RunJob(info.Env(), keep, [=] { Prefault(range, ProgressView(progress)); })};
}

Napi::Value PageSize(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(PageBytes()));
}

}  // namespace

Mapping& MappingArg(const Napi::Value& value) {
  if (!value.IsExternal() || !value.As<Napi::External<Mapping>>().CheckTypeTag(&kMappingTag)) {
    BadType(value.Env(), "mapping must come from mapReadOnly()");
  }
  Mapping& mapping = *value.As<Napi::External<Mapping>>().Data();
  if (mapping.address == nullptr) BadRange(value.Env(), "the mapping was unmapped");
  return mapping;
}

MappedRange RangeArgs(const Napi::CallbackInfo& info, size_t mapping_at, size_t offset_at, size_t length_at) {
  const Mapping& mapping = MappingArg(info[mapping_at]);
  const uint64_t offset = SafeIntegerArg(info[offset_at], "offset", mapping.length);
  const uint64_t length = SafeIntegerArg(info[length_at], "length", mapping.length - offset);
  if (offset % PageBytes() != 0 || length % PageBytes() != 0 || length == 0) {
    BadRange(info.Env(), "a range must be whole pages");
  }
  return {mapping.address + offset, length};
}

void ExportMappings(Napi::Object exports) {
  Export<MapReadOnly>(exports, "mapReadOnly");
  Export<Unmap>(exports, "unmap");
  Export<Residency>(exports, "residency");
  Export<PageCache>(exports, "pageCache");
  Export<PrefaultRange>(exports, "prefault");
  Export<PageSize>(exports, "pageSize");
}

}  // namespace weightroom
