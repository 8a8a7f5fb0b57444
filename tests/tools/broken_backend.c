/* Plug-ins that a host must refuse, one per value of DIF_TEST_BROKEN. Compiled as C11 with -pedantic -Werror,
 * so that it also proves that include/dif/backend_abi.h is C11. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define DIF_BACKEND_IMPLEMENTATION
#include "dif/backend_abi.h"

static dif_code probe(const char** json, dif_error* error) {
  (void)error;
  *json = "{\"backend\":\"broken\"}";
  return DIF_OK;
}

static dif_code context_create(const dif_context_options* options, dif_context** context, dif_error* error) {
  (void)options;
  (void)error;
  *context = NULL;
  return DIF_OK;
}

static void context_destroy(dif_context* context) {
  (void)context;
}

static dif_code prepare(dif_context* context, const dif_prepare_options* options, dif_prepared** prepared,
                        dif_error* error) {
  (void)context;
  (void)options;
  (void)prepared;
  (void)error;
  return DIF_ERROR_UNAVAILABLE; /* without a sentence */
}

static void prepared_destroy(dif_prepared* prepared) {
  (void)prepared;
}

static dif_code report(const dif_prepared* prepared, dif_report* report, dif_error* error) {
  (void)prepared;
  (void)report;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

static dif_code run(dif_prepared* prepared, const dif_run_options* options, dif_error* error) {
  (void)prepared;
  (void)options;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

static dif_code run_loop(dif_prepared* prepared, const dif_loop_options* options, dif_error* error) {
  (void)prepared;
  (void)options;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

static dif_code value_create(dif_context* context, const dif_tensor_type* type, dif_value** value,
                             dif_error* error) {
  (void)context;
  (void)type;
  (void)value;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

static void value_destroy(dif_value* value) {
  (void)value;
}

static dif_code value_write(dif_value* value, const void* data, uint64_t bytes, dif_error* error) {
  (void)value;
  (void)data;
  (void)bytes;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

static dif_code value_read(const dif_value* value, void* data, uint64_t bytes, dif_error* error) {
  (void)value;
  (void)data;
  (void)bytes;
  (void)error;
  return DIF_ERROR_INTERNAL;
}

const dif_backend_api* dif_backend_entry(uint16_t host_abi_major, uint16_t host_abi_minor) {
  static dif_backend_api api;
  const char* broken = getenv("DIF_TEST_BROKEN");
  const dif_backend_api whole = {
      sizeof(dif_backend_api), DIF_ABI_MAJOR, DIF_ABI_MINOR,    "broken", "0", probe,    context_create,
      context_destroy,         prepare,       prepared_destroy, report,   run, run_loop, value_create,
      value_destroy,           value_write,   value_read,       0,        0};
  (void)host_abi_major;
  (void)host_abi_minor;
  api = whole;
  if (broken == NULL) return &api;
  if (strcmp(broken, "no table") == 0) return NULL;
  if (strcmp(broken, "major version") == 0) api.abi_major = DIF_ABI_MAJOR + 1;
  if (strcmp(broken, "short table") == 0) api.struct_size = offsetof(dif_backend_api, value_read);
  if (strcmp(broken, "empty table") == 0) api.struct_size = 0;
  if (strcmp(broken, "missing function") == 0) api.run_loop = NULL;
  if (strcmp(broken, "no name") == 0) api.name = NULL;
  return &api;
}
