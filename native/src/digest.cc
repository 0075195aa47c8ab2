// Digests as JavaScript asks for them: of memory at once, of ranges of files on the pool.
#include "args.h"
#include "exports.h"
#include "jobs.h"
#include "progress.h"
#include "range-digests.h"
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
  Export<OfRanges>(exports, "sha256Ranges");
  Export<Implementation>(exports, "sha256Implementation");
  Export<LaneImplementation>(exports, "sha256LaneImplementation");
}

}  // namespace weightroom
