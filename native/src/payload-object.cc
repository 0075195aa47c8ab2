// The PayloadWriter object of index.ts. Its calls run one after another in the order in which they were
// made, whether or not the caller waits between them. The running call shares ownership of the writer, so
// the object may be collected meanwhile.
#include <memory>
#include <string>
#include <vector>

#include "args.h"
#include "exports.h"
#include "jobs.h"
#include "payload-writer.h"

namespace weightroom {
namespace {

Cast CastArg(const Napi::Value& value, bool none_allowed) {
  const std::string name = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  if (name == "none" && none_allowed) return Cast::kNone;
  if (name == "f32-to-bf16") return Cast::kFloat32ToBfloat16;
  if (name == "f16-to-bf16") return Cast::kFloat16ToBfloat16;
  BadType(value.Env(), "cast is not one that there is");
}

Segment SegmentArg(const Napi::Value& value) {
  if (!value.IsObject()) BadType(value.Env(), "a segment must be an object");
  const auto object = value.As<Napi::Object>();
  const Segment segment{DescriptorArg(object.Get("fd"), "fd"), SafeIntegerArg(object.Get("offset"), "offset"),
                        SafeIntegerArg(object.Get("length"), "length"), CastArg(object.Get("cast"), true)};
  if (segment.length > kLargestSafeInteger - segment.offset) BadRange(value.Env(), "length is too large");
  if (segment.length % SourceElementBytes(segment.cast) != 0) {
    BadRange(value.Env(), "length must be a multiple of the cast's element size");
  }
  return segment;
}

std::vector<Segment> SegmentsArg(const Napi::Value& value) {
  if (!value.IsArray()) BadType(value.Env(), "segments must be an array");
  const auto array = value.As<Napi::Array>();
  std::vector<Segment> segments;
  uint64_t total = 0;
  for (uint32_t i = 0; i < array.Length(); i++) {
    segments.push_back(SegmentArg(array.Get(i)));
    total += TargetBytes(segments.back());
    if (total > kLargestSafeInteger) BadRange(value.Env(), "the segments are too large together");
  }
  return segments;
}

class AppendJob final : public Job {
 public:
  AppendJob(std::shared_ptr<PayloadWriter> writer, std::unique_ptr<PayloadSource> source, int64_t* progress)
      : writer_(std::move(writer)), source_(std::move(source)), progress_(progress) {}
  void Execute() override { writer_->Append(*source_, progress_); }
  napi_value Result(napi_env env) override { return UndefinedValue(env); }

 private:
  std::shared_ptr<PayloadWriter> writer_;
  std::unique_ptr<PayloadSource> source_;
  ProgressView progress_;
};

class FinishJob final : public Job {
 public:
  explicit FinishJob(std::shared_ptr<PayloadWriter> writer) : writer_(std::move(writer)) {}
  void Execute() override { writer_->Finish(); }
  napi_value Result(napi_env env) override { return UndefinedValue(env); }

 private:
  std::shared_ptr<PayloadWriter> writer_;
};

class PayloadObject final : public Napi::ObjectWrap<PayloadObject> {
 public:
  // Made by payloadWriter alone: one that a script makes with `new` has no writer, and its calls throw.
  explicit PayloadObject(const Napi::CallbackInfo& info) : ObjectWrap(info) {}

  static Napi::Function Define(Napi::Env env) {
    return DefineClass(env, "PayloadWriter",
                       {InstanceMethod<&PayloadObject::Write>("write"), InstanceMethod<&PayloadObject::Copy>("copy"),
                        InstanceMethod<&PayloadObject::Finish>("finish")});
  }

  void Adopt(std::shared_ptr<PayloadWriter> writer) { writer_ = std::move(writer); }

 private:
  Napi::Value Write(const Napi::CallbackInfo& info) {
    const Bytes bytes = BytesArg(info[0], "bytes");
    auto source = std::make_unique<MemorySource>(Chunk(bytes.data, bytes.size));
    return Start(info, std::make_unique<AppendJob>(Writer(info), std::move(source), nullptr), {info[0]});
  }

  Napi::Value Copy(const Napi::CallbackInfo& info) {
    auto source = std::make_unique<SegmentSource>(SegmentsArg(info[0]));
    int64_t* progress = ProgressArg(info[1]);
    std::vector<napi_value> keep;
    if (progress != nullptr) keep.push_back(info[1]);
    return Start(info, std::make_unique<AppendJob>(Writer(info), std::move(source), progress), keep);
  }

  Napi::Value Finish(const Napi::CallbackInfo& info) {
    return Start(info, std::make_unique<FinishJob>(Writer(info)), {});
  }

  std::shared_ptr<PayloadWriter> Writer(const Napi::CallbackInfo& info) {
    if (!writer_) BadType(info.Env(), "a PayloadWriter comes from payloadWriter()");
    return writer_;
  }

  Napi::Value Start(const Napi::CallbackInfo& info, std::unique_ptr<Job> job,
                    const std::vector<napi_value>& keep) {
    return {info.Env(), StartJob(info.Env(), std::move(job), keep, queue_)};
  }

  std::shared_ptr<PayloadWriter> writer_;
  std::shared_ptr<JobQueue> queue_ = std::make_shared<JobQueue>();
};

Napi::Value MakePayloadWriter(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const Bytes prefix = BytesArg(info[1], "prefix");
  const uint64_t tensor_bytes = SafeIntegerArg(info[2], "tensorBytes", kLargestSafeInteger - prefix.size);
  auto writer = std::make_shared<PayloadWriter>(fd, prefix.size + tensor_bytes);
  writer->WritePrefix(Chunk(prefix.data, prefix.size));
  const auto* constructor = info.Env().GetInstanceData<Napi::FunctionReference>();
  const Napi::Object object = constructor->New({});
  PayloadObject::Unwrap(object)->Adopt(std::move(writer));
  return object;
}

Napi::Value CastToBfloat16(const Napi::CallbackInfo& info) {
  const Cast cast = CastArg(info[0], false);
  const Bytes source = BytesArg(info[1], "source");
  const size_t element = SourceElementBytes(cast);
  if (source.size % element != 0) {
    BadRange(info.Env(), "source must be a whole number of the cast's elements");
  }
  const size_t elements = source.size / element;
  auto target = Napi::Uint8Array::New(info.Env(), elements * TargetElementBytes(cast));
  CastElements(cast, source.data, target.Data(), elements);
  return target;
}

}  // namespace

void ExportPayloads(Napi::Object exports) {
  auto constructor = std::make_unique<Napi::FunctionReference>(Napi::Persistent(PayloadObject::Define(exports.Env())));
  exports.Env().SetInstanceData(constructor.release());
  Export<MakePayloadWriter>(exports, "payloadWriter");
  Export<CastToBfloat16>(exports, "castToBfloat16");
}

}  // namespace weightroom
