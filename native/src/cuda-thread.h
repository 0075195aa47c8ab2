// One thread for all calls into the driver, in the order in which they were asked for. A call that never returns
// holds this thread and nothing else: the environment's thread, libuv's pool and its promises go on.
#pragma once

#include <node_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda-api.h"

namespace weightroom {

class CudaThread {
 public:
  // On the thread: works, and returns what makes the promise's value on the environment's thread.
  using Deliver = std::function<napi_value(napi_env)>;
  using Work = std::function<Deliver(CudaThread&)>;

  static std::shared_ptr<CudaThread> Start(napi_env env);

  // Returns the promise. `keep` stays referenced until the promise settles.
  static napi_value Run(const std::shared_ptr<CudaThread>& self, napi_env env, napi_value keep, Work work);

  // Used on the thread alone.
  CudaApi api;
  CudaDevice device = 0;
  CudaContext context = nullptr;
  bool opened = false;

 private:
  struct Task;
  static void Loop(std::shared_ptr<CudaThread> self);
  static void Settle(napi_env env, napi_value callback, void* context, void* data);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task*> tasks_;
  napi_threadsafe_function settle_ = nullptr;
  size_t pending_ = 0;  // on the environment's thread
};

}  // namespace weightroom
