// A ptrace for User-Mode Linux 6.12 on processors with AMX. hack/vm/image.sh builds it, and the dynamic linker loads it
// before the C library: /etc/ld.so.preload in the root of User-Mode Linux.
//
// User-Mode Linux keeps the vector registers of its processes in buffers of 2,696 bytes, enough for AVX-512. If the
// machine's state is larger, PTRACE_GETREGSET fills the buffer with its beginning, but PTRACE_SETREGSET fails with EFAULT,
// because it takes the whole state only. User-Mode Linux then ends the guest's first process: "ptrace set fp regs failed,
// errno = 14". From version 6.13 on, it asks for the size.
//
// Here the state is filled up with zeros to its size. Its header, at byte 512, tells the machine's kernel which parts
// hold values. Those beyond the buffer are not among them: they are AMX's tiles, which a process must ask its kernel for,
// and the guest's kernel doesn't grant.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long ptrace_function(int request, pid_t pid, void *address, void *data);

// User-Mode Linux traces from one thread only, so that these need no lock.
static ptrace_function *libc_ptrace;
static char state[64 << 10];
static size_t state_size; // of this machine; 0 is unknown

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	if (!libc_ptrace)
		libc_ptrace = (ptrace_function *)dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return libc_ptrace(request, pid, address, data);

	struct iovec whole = {state, sizeof state};
	if (!state_size) {
		if (libc_ptrace(PTRACE_GETREGSET, pid, address, &whole) < 0)
			return -1;
		state_size = whole.iov_len;
		memset(state, 0, sizeof state);
	}
	const struct iovec *part = data;
	if (part->iov_len >= state_size)
		return libc_ptrace(request, pid, address, data);
	memcpy(state, part->iov_base, part->iov_len);
	whole.iov_len = state_size;
	return libc_ptrace(request, pid, address, &whole);
}
