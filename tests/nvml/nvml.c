/* A libnvidia-ml of the tests' own: what it answers stands in the file that NVML_PLAN names, read anew at each call.
 *
 * One setting a line, `KEY VALUE`; of several the last counts. KEY is `lib.count`, or `DEVICE.FIELD` with DEVICE `*`, a
 * GPU's index, or a MIG device as `GPU/INDEX`. FIELD: name, uuid, total, used, utilization, milliwatts, celsius,
 * processes, mig (number of MIG devices; without it MIG is off). A VALUE of a name may have \xNN.
 * DEVICE.FUNCTION has that function fail there with the code VALUE, or never return when VALUE is `hang`; DEVICE is
 * `lib` for functions that take no device.
 *
 * With -DOLD it is a driver's of before 2020: no version 2 of memory, no version 3 of processes, no MIG.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Return;
typedef struct Device *Handle; /* an index, and above it a MIG device's index + 1 */
typedef unsigned long long Bytes;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { LONGEST = 256 };

static int users;

static int find(const char *device, const char *field, char *value) {
    const char *path = getenv("NVML_PLAN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LONGEST], key[LONGEST], wanted[LONGEST];
    int found = 0, at;
    if (!file) return 0;
    snprintf(wanted, sizeof wanted, "%s.%s", device, field);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%255s %n", key, &at) < 1) continue;
        int any = key[0] == '*' && key[1] == '.' && strcmp(device, "lib") && !strcmp(key + 2, field);
        if (any || !strcmp(key, wanted)) {
            strcpy(value, line + at);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static Handle handle(unsigned gpu, unsigned mig) { return (Handle)(size_t)(1 + gpu + (size_t)mig * 1024); }
static unsigned gpu_of(Handle it) { return ((size_t)it - 1) % 1024; }
static unsigned mig_of(Handle it) { return ((size_t)it - 1) / 1024; }

static const char *label(Handle it, char *text) {
    if (mig_of(it)) sprintf(text, "%u/%u", gpu_of(it), mig_of(it) - 1);
    else sprintf(text, "%u", gpu_of(it));
    return text;
}

static Return fails(const char *device, const char *function) {
    char value[LONGEST];
    if (strcmp(function, "nvmlInitWithFlags") && users == 0) return UNINITIALIZED;
    if (!find(device, function, value)) return OK;
    while (!strcmp(value, "hang")) pause();
    return atoi(value);
}

static Return number(Handle it, const char *function, const char *field, Bytes *found) {
    char device[32], value[LONGEST];
    Return code = fails(label(it, device), function);
    if (code) return code;
    if (!find(device, field, value)) return NOT_SUPPORTED;
    *found = strtoull(value, NULL, 10);
    return OK;
}

static Return text(Handle it, const char *function, const char *field, char *out, unsigned room) {
    char device[32], value[LONGEST];
    unsigned length = 0, byte;
    Return code = fails(label(it, device), function);
    if (code) return code;
    if (!find(device, field, value)) snprintf(value, sizeof value, "%s-%s", field, device);
    for (char *at = value; *at && length + 1 < room; at++) {
        if (!strncmp(at, "\\x", 2) && sscanf(at + 2, "%2x", &byte) == 1) out[length++] = (char)byte, at += 3;
        else out[length++] = *at;
    }
    out[length] = 0;
    return OK;
}

Return nvmlInitWithFlags(unsigned flags) {
    Return code = fails("lib", "nvmlInitWithFlags");
    (void)flags;
    users += code == OK;
    return code;
}

Return nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return OK;
}

const char *nvmlErrorString(Return code) {
    static char said[64];
    sprintf(said, "error %d of the stand-in", code);
    return said;
}

Return nvmlDeviceGetCount_v2(unsigned *count) {
    char value[LONGEST];
    Return code = fails("lib", "nvmlDeviceGetCount_v2");
    if (code) return code;
    *count = find("lib", "count", value) ? (unsigned)atoi(value) : 0;
    return OK;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *device) {
    char text_of[32];
    unsigned count = 0;
    Return code = fails(label(handle(index, 0), text_of), "nvmlDeviceGetHandleByIndex_v2");
    if (code) return code;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count) return INVALID;
    *device = handle(index, 0);
    return OK;
}

Return nvmlDeviceGetName(Handle it, char *name, unsigned room) {
    return text(it, "nvmlDeviceGetName", "name", name, room);
}

Return nvmlDeviceGetUUID(Handle it, char *uuid, unsigned room) {
    return text(it, "nvmlDeviceGetUUID", "uuid", uuid, room);
}

typedef struct { Bytes total, free, used; } Memory;
typedef struct { unsigned version; Bytes total, reserved, free, used; } Memory2;

Return nvmlDeviceGetMemoryInfo(Handle it, Memory *memory) {
    Return code = number(it, "nvmlDeviceGetMemoryInfo", "total", &memory->total);
    if (!code) code = number(it, "nvmlDeviceGetMemoryInfo", "used", &memory->used);
    memory->used += 512 << 20; /* what the driver reserves, which version 2 tells apart */
    memory->free = memory->total - memory->used;
    return code;
}

Return nvmlDeviceGetUtilizationRates(Handle it, unsigned *gpu_and_memory) {
    Bytes percent = 0;
    Return code = number(it, "nvmlDeviceGetUtilizationRates", "utilization", &percent);
    gpu_and_memory[0] = gpu_and_memory[1] = (unsigned)percent;
    return code;
}

Return nvmlDeviceGetPowerUsage(Handle it, unsigned *milliwatts) {
    Bytes found = 0;
    Return code = number(it, "nvmlDeviceGetPowerUsage", "milliwatts", &found);
    *milliwatts = (unsigned)found;
    return code;
}

Return nvmlDeviceGetTemperature(Handle it, int sensor, unsigned *celsius) {
    Bytes found = 0;
    Return code = number(it, "nvmlDeviceGetTemperature", "celsius", &found);
    (void)sensor;
    *celsius = (unsigned)found;
    return code;
}

#ifndef OLD
Return nvmlDeviceGetMemoryInfo_v2(Handle it, Memory2 *memory) {
    Return code;
    if (memory->version != (2u << 24 | sizeof *memory)) return INVALID;
    code = number(it, "nvmlDeviceGetMemoryInfo", "total", &memory->total);
    if (!code) code = number(it, "nvmlDeviceGetMemoryInfo", "used", &memory->used);
    memory->reserved = 512 << 20;
    memory->free = memory->total - memory->used - memory->reserved;
    return code;
}

typedef struct { unsigned pid; Bytes used; unsigned gpu_instance, compute_instance; } Process;

Return nvmlDeviceGetComputeRunningProcesses_v3(Handle it, unsigned *count, Process *found) {
    Bytes running = 0;
    Return code = number(it, "nvmlDeviceGetComputeRunningProcesses", "processes", &running);
    if (code) return code;
    unsigned room = *count;
    *count = (unsigned)running;
    if (running > room) return TOO_SMALL;
    for (unsigned i = 0; i < running; i++) found[i] = (Process){4000000 + i, 1 << 30, ~0u, ~0u};
    return OK;
}

Return nvmlDeviceGetMigMode(Handle it, unsigned *current, unsigned *pending) {
    Bytes devices = 0;
    Return code = number(it, "nvmlDeviceGetMigMode", "mig", &devices); /* not supported without it */
    *current = *pending = 1;
    return code;
}

Return nvmlDeviceGetMaxMigDeviceCount(Handle it, unsigned *count) {
    char device[32];
    *count = 7;
    return fails(label(it, device), "nvmlDeviceGetMaxMigDeviceCount");
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Handle it, unsigned index, Handle *mig) {
    char device[32];
    Bytes devices = 0;
    Return code = fails(label(handle(gpu_of(it), index + 1), device), "nvmlDeviceGetMigDeviceHandleByIndex");
    if (!code) code = number(it, "nvmlDeviceGetMigMode", "mig", &devices);
    if (code) return code;
    if (index >= devices) return NOT_FOUND;
    *mig = handle(gpu_of(it), index + 1);
    return OK;
}
#endif
