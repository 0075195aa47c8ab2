// Digests as JavaScript asks for them: of memory at once, of ranges of files on the pool.
#include "args.h"
#include "exports.h"
#include "jobs.h"
#include "progress.h"
#include "range-digests.h"
#include "sha256-lanes.h"
#include "sha256.h"

namespace weightroom {
namespace {

Napi::Value DigestBytes(const Napi::CallbackInfo& info, Sha256 digest) {
  const Bytes bytes = BytesArg(info[0], "bytes");
  digest.Update(bytes.data, bytes.size);
  return Napi::String::New(info.Env(), digest.FinishHex());
}

Napi::Value OfBytes(const Napi::CallbackInfo& info) { return DigestBytes(info, Sha256()); }

Napi::Value OfBytesPortably(const Napi::CallbackInfo& info) {
  return DigestBytes(info, Sha256(Sha256CompressPortable));
}

Range RangeArg(const Napi::Value& value) {
  if (!value.IsObject()) BadType(value.Env(), "a range must be an object");
  const auto object = value.As<Napi::Object>();
  const Range range{DescriptorArg(object.Get("fd"), "fd"), SafeIntegerArg(object.Get("offset"), "offset"),
                    SafeIntegerArg(object.Get("length"), "length")};
  if (range.length > kLargestSafeInteger - range.offset) BadRange(value.Env(), "length is too large");
  return range;
}

std::vector<Range> RangesArg(const Napi::Value& value) {
  if (!value.IsArray()) BadType(value.Env(), "ranges must be an array");
  const auto array = value.As<Napi::Array>();
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < array.Length(); i++) ranges.push_back(RangeArg(array.Get(i)));
  return ranges;
}

napi_value TextsValue(napi_env env, const std::vector<std::string>& texts) {
  napi_value array = nullptr;
  napi_create_array_with_length(env, texts.size(), &array);
  for (uint32_t i = 0; i < texts.size(); i++) {
    napi_value text = nullptr;
    napi_create_string_latin1(env, texts[i].data(), texts[i].size(), &text);
    napi_set_element(env, array, i, text);
  }
  return array;
}

Napi::Value OfRanges(const Napi::CallbackInfo& info) {
  std::vector<Range> ranges = RangesArg(info[0]);
  const ProgressView progress(ProgressArg(info[1]));
  std::vector<napi_value> keep;
  if (!info[1].IsUndefined()) keep.push_back(info[1]);
  const auto digest = [ranges = std::move(ranges), progress] { return DigestRanges(ranges, progress); };
  return {info.Env(), RunJob(info.Env(), keep, digest, TextsValue)};
}

// Messages of one length, by the named kernel; null where this processor cannot run it.
Napi::Value OfBytesInLanes(const Napi::CallbackInfo& info) {
  const std::string name = info[0].IsString() ? info[0].As<Napi::String>().Utf8Value() : "";
  if (name != "avx512" && name != "avx2") BadType(info.Env(), "kernel is not one that there is");
  if (!info[1].IsArray()) BadType(info.Env(), "messages must be an array");
  const bool wide = name == "avx512";
  if (!(wide ? Avx512Usable() : Avx2Usable())) return info.Env().Null();
  const LaneKernel kernel{"", wide ? kMostLanes : 8, 1, wide ? Sha256CompressAvx512 : Sha256CompressAvx2};
  const auto array = info[1].As<Napi::Array>();
  if (array.Length() == 0 || array.Length() > kernel.lanes) BadRange(info.Env(), "messages do not fit the lanes");
  std::vector<Sha256> digests(array.Length());
  std::vector<Bytes> messages;
  std::vector<Sha256::Feed> feeds;
  for (uint32_t i = 0; i < array.Length(); i++) {
    messages.push_back(BytesArg(array.Get(i), "message"));
    if (messages[i].size != messages[0].size) BadRange(info.Env(), "messages must have one length");
    feeds.push_back({&digests[i], messages[i].data});
  }
  const size_t blocks = messages[0].size / kSha256Block, fed = blocks * kSha256Block;
  if (blocks > 0) Sha256::UpdateInLanes(kernel, feeds, blocks);
  std::vector<std::string> texts;
  for (size_t i = 0; i < digests.size(); i++) {
    digests[i].Update(messages[i].data + fed, messages[i].size - fed);
    texts.push_back(digests[i].FinishHex());
  }
  return {info.Env(), TextsValue(info.Env(), texts)};
}

Napi::Value Implementation(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), Sha256::Implementation());
}

Napi::Value LaneImplementation(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), Sha256::LaneImplementation());
}

}  // namespace

void ExportDigests(Napi::Object exports) {
  Export<OfBytes>(exports, "sha256");
  Export<OfBytesPortably>(exports, "sha256Portable");
  Export<OfBytesInLanes>(exports, "sha256InLanes");
  Export<OfRanges>(exports, "sha256Ranges");
  Export<Implementation>(exports, "sha256Implementation");
  Export<LaneImplementation>(exports, "sha256LaneImplementation");
}

}  // namespace weightroom
