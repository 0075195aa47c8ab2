// Argument checks; see args.h.
#include "args.h"

#include <climits>
#include <cmath>

#include "names.h"

namespace weightroom {
namespace {

std::string EncodedArg(const Napi::Value& value, const char* label) {
  if (!value.IsString()) BadType(value.Env(), std::string(label) + " must be a string");
  const auto bytes = EncodeName(value.As<Napi::String>().Utf16Value());
  if (!bytes) BadRange(value.Env(), std::string(label) + " has a lone surrogate that stands for no byte");
  if (bytes->empty()) BadRange(value.Env(), std::string(label) + " must not be empty");
  if (bytes->find('\0') != std::string::npos) BadRange(value.Env(), std::string(label) + " has a NUL");
  return *bytes;
}

// Without asking for the ArrayBuffer: the array may stand on a SharedArrayBuffer.
struct ArrayInfo {
  napi_typedarray_type type;
  size_t length;
  void* data;
};

ArrayInfo TypedArrayInfo(const Napi::Value& value, const char* label, const char* wanted) {
  ArrayInfo info{};
  if (!value.IsTypedArray() || napi_get_typedarray_info(value.Env(), value, &info.type, &info.length, &info.data,
                                                        nullptr, nullptr) != napi_ok) {
    BadType(value.Env(), std::string(label) + " must be a " + wanted);
  }
  return info;
}

}  // namespace

void BadType(Napi::Env env, const std::string& message) { throw Napi::TypeError::New(env, message); }
void BadRange(Napi::Env env, const std::string& message) { throw Napi::RangeError::New(env, message); }

uint64_t SafeIntegerArg(const Napi::Value& value, const char* label, uint64_t largest) {
  if (!value.IsNumber()) BadType(value.Env(), std::string(label) + " must be a number");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number <= static_cast<double>(largest)) || std::trunc(number) != number) {
    BadRange(value.Env(), std::string(label) + " must be an integer from 0 to " + std::to_string(largest));
  }
  return static_cast<uint64_t>(number);
}

int DescriptorArg(const Napi::Value& value, const char* label) {
  return static_cast<int>(SafeIntegerArg(value, label, INT_MAX));
}

int FlagsArg(const Napi::Value& value) { return static_cast<int>(SafeIntegerArg(value, "flags", INT_MAX)); }

mode_t ModeArg(const Napi::Value& value) { return static_cast<mode_t>(SafeIntegerArg(value, "mode", 07777)); }

bool BooleanArg(const Napi::Value& value, const char* label) {
  if (!value.IsBoolean()) BadType(value.Env(), std::string(label) + " must be a boolean");
  return value.As<Napi::Boolean>().Value();
}

std::string PathArg(const Napi::Value& value) { return EncodedArg(value, "path"); }

std::string NameArg(const Napi::Value& value, const char* label) {
  std::string name = EncodedArg(value, label);
  if (name == "." || name == ".." || name.find('/') != std::string::npos) {
    BadRange(value.Env(), std::string(label) + " must be one path component");
  }
  return name;
}

Bytes BytesArg(const Napi::Value& value, const char* label) {
  const ArrayInfo info = TypedArrayInfo(value, label, "Uint8Array");
  if (info.type != napi_uint8_array) BadType(value.Env(), std::string(label) + " must be a Uint8Array");
  return {static_cast<uint8_t*>(info.data), info.length};
}

int64_t* ProgressArg(const Napi::Value& value) {
  if (value.IsUndefined()) return nullptr;
  const ArrayInfo info = TypedArrayInfo(value, "progress", "BigInt64Array");
  if (info.type != napi_bigint64_array) BadType(value.Env(), "progress must be a BigInt64Array");
  if (info.length < 2) BadRange(value.Env(), "progress must have two elements");
  return static_cast<int64_t*>(info.data);
}

}  // namespace weightroom
