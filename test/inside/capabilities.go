package inside

import (
	"slices"
	"strconv"
)

// capabilityNames are in the order of their numbers (linux/capability.h).
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// capabilities returns the names of a set in hexadecimal, sorted. A capability without a name is shown by its
// number.
func (l *looker) capabilities(hex string) []string {
	bits, err := strconv.ParseUint(hex, 16, 64)
	l.failed(err)
	names := []string{}
	for n := range 64 {
		switch {
		case bits&(1<<n) == 0:
		case n < len(capabilityNames):
			names = append(names, capabilityNames[n])
		default:
			names = append(names, strconv.Itoa(n))
		}
	}
	slices.Sort(names)
	return names
}
