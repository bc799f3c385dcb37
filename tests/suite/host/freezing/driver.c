/* Stands in for the part of libcuda.so.1 that brings what a process has on a GPU away and back (CUDA driver API,
 * CUDA Checkpointing). Of a GPU there is only a file that the process has open: it closes that at SIGUSR1, and
 * opens it again at SIGUSR2. Both it does itself, so it has to run. Each call is a line in `calls`. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/run/cuda-stand-in"
enum { SUCCESS = 0, ILLEGAL_STATE = 401, TIMEOUT = 909, RUNNING = 0, LOCKED = 1, AWAY = 2 };

static void note(const char *line)
{
	FILE *calls = fopen(FOLDER "/calls", "a");
	fprintf(calls, "%s\n", line);
	fclose(calls);
}

static int has_gpu(int pid)
{
	char folder[64], path[400], link[256];
	int found = 0;
	struct dirent *entry;
	snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
	DIR *files = opendir(folder);
	while (files && (entry = readdir(files))) {
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		ssize_t length = readlink(path, link, sizeof link - 1);
		link[length > 0 ? length : 0] = 0;
		found |= !strncmp(link, "/dev/nvidia", 11);
	}
	if (files)
		closedir(files);
	return found;
}

static const char *lock_of(int pid)
{
	static char path[64];
	snprintf(path, sizeof path, FOLDER "/locked.%d", pid);
	return path;
}

static int asked(int pid, int number, int wanted)
{
	kill(pid, number);
	for (int i = 0; i < 3000; i++) {
		if (has_gpu(pid) == wanted)
			return SUCCESS;
		usleep(10000);
	}
	return TIMEOUT;
}

int cuInit(unsigned flags)
{
	return flags ? ILLEGAL_STATE : SUCCESS;
}

int cuGetErrorName(int code, const char **name)
{
	*name = code == TIMEOUT ? "CUDA_ERROR_LAUNCH_TIMEOUT" : "CUDA_ERROR_ILLEGAL_STATE";
	return SUCCESS;
}

int cuCheckpointProcessGetState(int pid, int *state)
{
	*state = !has_gpu(pid) ? AWAY : access(lock_of(pid), F_OK) ? RUNNING : LOCKED;
	return SUCCESS;
}

int cuCheckpointProcessLock(int pid, const unsigned *arguments)
{
	note(arguments[0] ? "lock" : "lock without a limit");
	FILE *lock = fopen(lock_of(pid), "w");
	fclose(lock);
	return has_gpu(pid) ? SUCCESS : ILLEGAL_STATE;
}

int cuCheckpointProcessCheckpoint(int pid, const void *arguments)
{
	(void)arguments;
	note("checkpoint");
	if (access(lock_of(pid), F_OK) || !access(FOLDER "/fails", F_OK))
		return ILLEGAL_STATE;
	fclose(fopen(FOLDER "/away", "w"));
	return asked(pid, SIGUSR1, 0);
}

int cuCheckpointProcessRestore(int pid, void *const *arguments)
{
	const unsigned char *pair = arguments[0];
	char line[128] = "restore";
	for (int i = 0; pair && i < 32; i++)
		sprintf(line + strlen(line), "%s%02x", i % 16 ? "" : " ", pair[i]);
	note(line);
	if (pair && (size_t)arguments[1] != 1)
		return ILLEGAL_STATE;
	fclose(fopen(lock_of(pid), "w"));
	unlink(FOLDER "/away");
	return asked(pid, SIGUSR2, 1);
}

int cuCheckpointProcessUnlock(int pid, const void *arguments)
{
	(void)arguments;
	note("unlock");
	return unlink(lock_of(pid)) ? ILLEGAL_STATE : SUCCESS;
}
