package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The directories in which podexecd's helpers, and mount(8), look for programs.
var programDirs = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// storageTools checks whether podexecd, as it sees the machine from the directory root, has the programs that set up volumes
// without a CSI driver. Drivers bring their own programs. Not every node needs mount.nfs or iscsiadm, so their absence is no warning.
// process is podexecd's directory in /proc.
func (e *examination) storageTools(root, process string) []Finding {
	missing := func(names ...string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return hasProgram(root, name) })
	}
	if lacks := missing("mount"); len(lacks) > 0 {
		return []Finding{{
			"directories", Warning, "podexecd finds no program mount: volumes of NFS, of iSCSI, and PersistentVolumes of this node (local), can't be mounted",
			"if pods need them, run podexecd as a unit, or add the packages mount, nfs-common and e2fsprogs to its image",
		}}
	}
	var found []Finding
	if lacks := missing("mkfs.ext4", "blkid", "fsck"); len(lacks) > 0 {
		found = append(found, Finding{
			"directories", Warning, fmt.Sprintf("podexecd doesn't find %s: local block devices, and iSCSI disks, can't be checked, formatted and mounted", strings.Join(lacks, ", ")),
			"if pods need them, install e2fsprogs and util-linux",
		})
	}
	if lacks := missing("mount.nfs"); len(lacks) > 0 {
		found = append(found, Finding{"directories", OK, "without mount.nfs (the package nfs-common or nfs-utils) pods with volumes of NFS don't start", ""})
	}
	if lacks := missing("iscsiadm"); len(lacks) > 0 {
		found = append(found, Finding{
			"directories", OK, "without iscsiadm (the package open-iscsi or iscsi-initiator-utils) pods with iSCSI volumes don't start", "",
		})
	} else if e.lacksISCSID(process) {
		found = append(found, Finding{
			"directories", OK, "iscsid doesn't listen in podexecd's network: pods with iSCSI volumes don't start, unless iscsiadm can start it " +
				"(systemctl enable --now iscsid.socket)", "",
		})
	}
	return found
}

// iscsidSocket is the abstract socket of iscsid, or of systemd for it, as the kernel lists it.
const iscsidSocket = "@ISCSIADM_ABSTRACT_NAMESPACE"

// lacksISCSID reports whether iscsid is known not to listen in the network of a process.
func (e *examination) lacksISCSID(process string) bool {
	text, err := os.ReadFile(e.path("proc/" + process + "/net/unix"))
	return err == nil && !strings.Contains(string(text), iscsidSocket)
}

// noexec checks whether programs in volumes can be run: mounts beneath --kubelet-dir take over the options of its own mount.
func (e *examination) noexec(process string) []Finding {
	m, ok := mountOf(e.mounts(process), e.Podexec.KubeletDir)
	if !ok || !slices.Contains(strings.Split(m.flags, ","), "noexec") {
		return nil
	}
	return []Finding{{
		"directories", Warning, fmt.Sprintf("the mount %s, with --kubelet-dir, is noexec: containers can't run programs in their emptyDir volumes", m.point),
		"mount -o remount,exec " + m.point + ", and in /etc/fstab",
	}}
}

// hasProgram reports whether a root directory has the program. Links, such as /sbin to /usr/sbin, are followed within it.
func hasProgram(root, name string) bool {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(dir) }()
	return slices.ContainsFunc(programDirs, func(in string) bool {
		fd, err := unix.Openat2(dir, filepath.Join(in, name), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
		if err != nil {
			return false
		}
		defer func() { _ = unix.Close(fd) }()
		var stat unix.Stat_t
		return unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Mode&0o111 != 0
	})
}
