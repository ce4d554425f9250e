package openfile

import (
	"io/fs"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// generated names the file systems whose files the kernel generates. Their files look regular and have no bound in
// size or time.
var generated = map[uint32]string{
	unix.AAFS_MAGIC:           "apparmorfs",
	unix.ANON_INODE_FS_MAGIC:  "anonymous inode",
	unix.BINFMTFS_MAGIC:       "binfmt_misc",
	unix.BPF_FS_MAGIC:         "bpf",
	unix.CGROUP_SUPER_MAGIC:   "cgroup",
	unix.CGROUP2_SUPER_MAGIC:  "cgroup2",
	unix.DEBUGFS_MAGIC:        "debugfs",
	unix.DEVPTS_SUPER_MAGIC:   "devpts",
	unix.EFIVARFS_MAGIC:       "efivarfs",
	unix.NSFS_MAGIC:           "nsfs",
	unix.PROC_SUPER_MAGIC:     "procfs",
	unix.PSTOREFS_MAGIC:       "pstore",
	unix.RDTGROUP_SUPER_MAGIC: "resctrl",
	unix.SECURITYFS_MAGIC:     "securityfs",
	unix.SELINUX_MAGIC:        "selinuxfs",
	unix.SMACK_MAGIC:          "smackfs",
	unix.SYSFS_MAGIC:          "sysfs",
	unix.TRACEFS_MAGIC:        "tracefs",
	unix.XENFS_SUPER_MAGIC:    "xenfs",
	0x19800202:                "mqueue",
	0x62656570:                "configfs",
	0x65735543:                "fusectl",
}

func statOf(fd int, path string) (fs.FileMode, error) {
	var st unix.Stat_t
	if _, err := again(func() (int, error) { return 0, unix.Fstat(fd, &st) }); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	return mode, nil
}

// kindOf describes a file that isn't regular. It is empty for a regular one.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	default:
		return "special file"
	}
}

// elements are the parts of a local path.
func elements(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(path, "/") {
			if name != "" && name != "." && !yield(name) {
				return
			}
		}
	}
}
