// The driver's own thread; see cuda-thread.h. It is detached: nobody can wait for one that is stuck.
#include "cuda-thread.h"

#include <pthread.h>

#include <csignal>
#include <new>
#include <optional>
#include <thread>

#include "failure.h"

namespace weightroom {

struct CudaThread::Task {
  Work work;
  Deliver deliver;
  std::optional<Failure> failure;
  napi_deferred deferred = nullptr;
  napi_ref keep = nullptr;
  std::shared_ptr<CudaThread> thread;
};

std::shared_ptr<CudaThread> CudaThread::Start(napi_env env) {
  auto self = std::make_shared<CudaThread>();
  napi_value label = nullptr;
  napi_create_string_utf8(env, "weightroom cuda", NAPI_AUTO_LENGTH, &label);
  if (napi_create_threadsafe_function(env, nullptr, nullptr, label, 0, 1, nullptr, nullptr, nullptr, Settle,
                                      &self->settle_) != napi_ok) {
    throw Failure{EAGAIN, "napi_create_threadsafe_function"};
  }
  // Only work that was asked for keeps the event loop alive.
  napi_unref_threadsafe_function(env, self->settle_);
  // Signals are for the main thread. Blocked before the thread starts, so that it never takes one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<Failure> failure;
  try {
    std::thread(Loop, self).detach();
  } catch (const std::system_error& error) {
    failure = Failure{error.code().value(), "pthread_create"};
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure) throw *failure;
  return self;
}

napi_value CudaThread::Run(const std::shared_ptr<CudaThread>& self, napi_env env, napi_value keep, Work work) {
  auto task = std::make_unique<Task>();
  task->work = std::move(work);
  task->thread = self;
  napi_value promise = nullptr;
  if (napi_create_promise(env, &task->deferred, &promise) != napi_ok) throw Failure{ENOMEM, "napi_create_promise"};
  if (keep != nullptr) napi_create_reference(env, keep, 1, &task->keep);
  if (self->pending_++ == 0) napi_ref_threadsafe_function(env, self->settle_);
  const std::lock_guard lock(self->mutex_);
  self->tasks_.push_back(task.release());
  self->wake_.notify_one();
  return promise;
}

void CudaThread::Loop(std::shared_ptr<CudaThread> self) {
  for (;;) {
    std::unique_lock lock(self->mutex_);
    self->wake_.wait(lock, [&] { return !self->tasks_.empty(); });
    Task* task = self->tasks_.front();
    self->tasks_.pop_front();
    lock.unlock();
    try {
      task->deliver = task->work(*self);
    } catch (const Failure& failure) {
      task->failure = failure;
    } catch (const std::bad_alloc&) {
      task->failure = Failure{ENOMEM, "malloc"};
    }
    if (napi_call_threadsafe_function(self->settle_, task, napi_tsfn_blocking) != napi_ok) return;
  }
}

void CudaThread::Settle(napi_env env, napi_value, void*, void* data) {
  const std::unique_ptr<Task> task(static_cast<Task*>(data));
  if (env == nullptr) return;
  if (task->keep != nullptr) napi_delete_reference(env, task->keep);
  if (--task->thread->pending_ == 0) napi_unref_threadsafe_function(env, task->thread->settle_);
  if (task->failure) {
    napi_value error = ErrorValue(env, *task->failure);
    if (error != nullptr) napi_reject_deferred(env, task->deferred, error);
    return;
  }
  napi_value result = task->deliver(env);
  if (result != nullptr) napi_resolve_deferred(env, task->deferred, result);
}

}  // namespace weightroom
