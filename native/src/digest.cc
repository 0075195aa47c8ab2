// Digests as JavaScript asks for them: of memory at once, of a file's range on the pool.
#include <algorithm>

#include "args.h"
#include "chunk-ring.h"
#include "exports.h"
#include "jobs.h"
#include "progress.h"
#include "sha256.h"
#include "transfers.h"

namespace weightroom {
namespace {

struct Range {
  int fd;
  uint64_t offset;
  uint64_t length;
};

// Calls `sink` for each chunk of the range, read into what `buffer` gives.
template <typename Buffer, typename Sink>
void ReadRange(const Range& range, const ProgressView& progress, Buffer buffer, Sink sink) {
  progress.ThrowIfCanceled("pread");
  for (uint64_t done = 0; done < range.length;) {
    progress.ThrowIfCanceled("pread");
    const size_t wanted = std::min<uint64_t>(kChunkBytes, range.length - done);
    uint8_t* into = buffer();
    if (ReadFully(range.fd, into, wanted, range.offset + done) < wanted) {
      throw Failure{EIO, "pread", {}, "the file ends before the range does"};
    }
    sink(Chunk(into, wanted));
    progress.Add(wanted);
    done += wanted;
  }
}

// Reads ahead of the hashing, so that the digest costs what hashing alone would.
std::string DigestRange(const Range& range, const ProgressView& progress) {
  Sha256 digest;
  ChunkRing ring;
  const auto update = [&digest](Chunk chunk) { digest.Update(chunk.data(), chunk.size()); };
  const auto buffer = [&ring] { return ring.Acquire(); };
  if (range.length <= kChunkBytes) {
    ReadRange(range, progress, buffer, update);
  } else {
    const LaneThreads hashing(ring, {update});
    ReadRange(range, progress, buffer, [&ring](Chunk chunk) { ring.Publish(chunk); });
  }
  return digest.FinishHex();
}

napi_value TextValue(napi_env env, const std::string& text) {
  napi_value value = nullptr;
  napi_create_string_latin1(env, text.data(), text.size(), &value);
  return value;
}

Napi::Value DigestBytes(const Napi::CallbackInfo& info, Sha256 digest) {
  const Bytes bytes = BytesArg(info[0], "bytes");
  digest.Update(bytes.data, bytes.size);
  return Napi::String::New(info.Env(), digest.FinishHex());
}

Napi::Value OfBytes(const Napi::CallbackInfo& info) { return DigestBytes(info, Sha256()); }

Napi::Value OfBytesPortably(const Napi::CallbackInfo& info) {
  return DigestBytes(info, Sha256(Sha256CompressPortable));
}

Napi::Value OfRange(const Napi::CallbackInfo& info) {
  const Range range{DescriptorArg(info[0], "fd"), SafeIntegerArg(info[1], "offset"),
                    SafeIntegerArg(info[2], "length")};
  if (range.length > kLargestSafeInteger - range.offset) BadRange(info.Env(), "length is too large");
  const ProgressView progress(ProgressArg(info[3]));
  std::vector<napi_value> keep;
  if (!info[3].IsUndefined()) keep.push_back(info[3]);
  return {info.Env(), RunJob(info.Env(), keep, [=] { return DigestRange(range, progress); }, TextValue)};
}

Napi::Value Implementation(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), Sha256::Implementation());
}

}  // namespace

void ExportDigests(Napi::Object exports) {
  Export<OfBytes>(exports, "sha256");
  Export<OfBytesPortably>(exports, "sha256Portable");
  Export<OfRange>(exports, "sha256Range");
  Export<Implementation>(exports, "sha256Implementation");
}

}  // namespace weightroom
