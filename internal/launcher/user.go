package launcher

import (
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// userName is podconfigd's user, as podstream.sysusers.conf makes it.
	userName = "_podconfigd"
	// fallbackID is podconfigd's user and group on a node without that user. No range of system users, people, dynamic users
	// or containers has it (systemd's UIDS-GIDS.md: 60706 to 61183 are unused), and no common image. docker-compose.yml and
	// deploy/node-dirs.sh have the same number.
	fallbackID = 60943
	// formerID is what podconfigd's user was before. It is the user of many images.
	formerID = 65532
	// maxSystemID is the highest ID of a system user. An account of a person must not run podconfigd.
	maxSystemID = 999
)

// identity is a user and a group.
type identity struct{ uid, gid int }

// systemUser returns podconfigd's user: that of the node's system users, or else the fallback.
func systemUser(lookup func(name string) (*user.User, error)) identity {
	fallback := identity{fallbackID, fallbackID}
	found, err := lookup(userName)
	if err != nil {
		return fallback
	}
	isSystem := func(id int) bool { return id > 0 && id <= maxSystemID }
	uid, uidErr := strconv.Atoi(found.Uid)
	gid, gidErr := strconv.Atoi(found.Gid)
	if uidErr != nil || gidErr != nil || !isSystem(uid) || !isSystem(gid) {
		return fallback
	}
	return identity{uid, gid}
}

// reduced returns the attributes of a podconfigd process without root's rights, and its user: it can read all files, as the
// kubelet's manifests and kubeconfig are root's alone, and write only its own. If this process can't grant that, as it
// isn't root or lacks a capability, the user is its own, and ok is false.
func reduced() (attr syscall.SysProcAttr, owner identity, ok bool) {
	own := identity{os.Geteuid(), os.Getegid()}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if own.uid != 0 || unix.Capget(&hdr, &data[0]) != nil {
		return syscall.SysProcAttr{}, own, false
	}
	const needed = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN
	if data[0].Effective&needed != needed {
		return syscall.SysProcAttr{}, own, false
	}
	owner = systemUser(user.Lookup)
	return syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uint32(owner.uid), Gid: uint32(owner.gid)}, //nolint:gosec // IDs are positive.
		AmbientCaps: []uintptr{unix.CAP_DAC_READ_SEARCH},
	}, owner, true
}
