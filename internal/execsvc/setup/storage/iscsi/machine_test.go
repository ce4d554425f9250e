package iscsi

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/roottest"
)

const (
	portal1 = "192.0.2.1:3260"
	portal2 = "[2001:db8::2]:3260"
)

// target is of this run: a helper process of another run isn't one that may mount a volume of this one.
var target = fmt.Sprintf("iqn.2026-01.com.example:store%d", os.Getpid())

// machine is a stand-in for /sys, /dev, iscsiadm, and for targets. Its disks are loop devices.
type machine struct {
	t   *testing.T
	dir string

	mu sync.Mutex
	// luns are the loop devices of logical units.
	luns map[int]string
	// others are those of the second portal, if they differ: the same disk by another path.
	others map[int]string
	// foreign is set if others are other disks than those of the first portal.
	foreign bool
	// scans and deletes are what was written to the kernel, in that order.
	scans, deletes []string
	hosts, disks   int
	// mapped is the number of disks that get a multipath device, when all have appeared. 0: none do.
	mapped int
	// mapping is the loop device of the multipath device. Empty: that of a path.
	mapping string
}

func newMachine(t *testing.T, luns ...int) *machine {
	t.Helper()
	roottest.Need(t, "mounting")
	m := &machine{t: t, dir: t.TempDir(), luns: map[int]string{}}
	for _, dir := range []string{"bin", "down", "up", "nodes", "ifaces", "dev", "sys/block", "sys/devices", "sys/class/iscsi_session", "sys/class/scsi_host"} {
		must(t, os.MkdirAll(m.path(dir), 0o750))
	}
	program, err := os.ReadFile("testdata/iscsiadm")
	must(t, err)
	must(t, os.WriteFile(m.path("bin/iscsiadm"), program, 0o755))
	must(t, os.WriteFile(m.path("ifaces/default"), []byte("# BEGIN RECORD 2.1.8\niface.iscsi_ifacename = default\n"+
		"iface.net_ifacename = <empty>\niface.transport_name = tcp\niface.initiatorname = <empty>\n# END RECORD\n"), 0o600))
	for _, lun := range luns {
		m.luns[lun] = loop(t)
	}
	m.addPortal(portal1)
	return m
}

func (m *machine) path(name ...string) string {
	return filepath.Join(append([]string{m.dir}, name...)...)
}

func (m *machine) host() initiator.Host {
	return initiator.Host{Sys: m.path("sys"), Dev: m.path("dev"), Iscsiadm: m.path("bin/iscsiadm"), Multipath: m.path("bin/multipath")}
}

// addPortal adds a portal of the target.
func (m *machine) addPortal(portal string) {
	m.t.Helper()
	m.hosts++
	n := m.hosts
	at := m.path("down", portal)
	class := fmt.Sprintf("session%d/iscsi_session/session%d", n, n)
	connection := fmt.Sprintf("session%d/connection%d:0/iscsi_connection/connection%d:0", n, n, n)
	host := fmt.Sprintf("scsi_host/host%d", n)
	for _, dir := range []string{class, connection, host} {
		must(m.t, os.MkdirAll(filepath.Join(at, dir), 0o750))
	}
	address, port, _ := strings.Cut(portal, "]:")
	if address = strings.TrimPrefix(address, "["); port == "" {
		address, port, _ = strings.Cut(portal, ":")
	}
	for name, text := range map[string]string{
		"number": fmt.Sprint(n), class + "/targetname": target, class + "/state": "LOGGED_IN", class + "/target_id": "0",
		connection + "/address": address, connection + "/port": port,
		connection + "/persistent_address": address, connection + "/persistent_port": port,
	} {
		must(m.t, os.WriteFile(filepath.Join(at, name), []byte(text+"\n"), 0o600))
	}
	must(m.t, os.Symlink("../..", filepath.Join(at, class, "device")))
	m.attribute(filepath.Join(at, host, "scan"), func(text string) {
		m.scans = append(m.scans, fmt.Sprintf("host%d: %s", n, text))
		var channel, id, lun int
		if _, err := fmt.Sscan(text, &channel, &id, &lun); err == nil {
			m.appear(n, lun)
		}
	})
}

// attribute makes a file to which the kernel's user writes, and calls wrote for each write.
func (m *machine) attribute(path string, wrote func(text string)) {
	m.t.Helper()
	must(m.t, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	must(m.t, err)
	var reading sync.WaitGroup
	reading.Go(func() {
		from := bufio.NewReader(f)
		for {
			buffer := make([]byte, 64)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			wrote(strings.TrimSpace(string(buffer[:n])))
			m.mu.Unlock()
		}
	})
	m.t.Cleanup(func() { f.Close(); reading.Wait() })
}

// appear makes the disk of a logical unit, if the target has it and the session is there.
func (m *machine) appear(host, lun int) {
	device, has := m.luns[lun]
	if other := m.others[lun]; host > 1 && other != "" {
		device = other
	}
	unit := m.path(fmt.Sprintf("sys/devices/host%d/session%d/target%d:0:0/%d:0:0:%d", host, host, host, host, lun))
	if _, err := os.Stat(filepath.Join(unit, "block")); !has || err == nil {
		return
	}
	name := "sd" + string(rune('a'+m.disks))
	m.disks++
	rdev := numberOf(m.t, device)
	must(m.t, os.MkdirAll(filepath.Join(unit, "block", name, "holders"), 0o750))
	must(m.t, os.WriteFile(filepath.Join(unit, "wwid"), fmt.Appendf(nil, "naa.%d%s\n", lun, map[bool]string{true: "f"}[m.foreign && host > 1]), 0o600))
	must(m.t, os.WriteFile(filepath.Join(unit, "type"), []byte("0\n"), 0o600))
	must(m.t, os.Symlink("../..", filepath.Join(unit, "block", name, "device")))
	must(m.t, os.Symlink(filepath.Join(unit, "block", name), m.path("sys/block", name)))
	must(m.t, unix.Mknod(m.path("dev", name), unix.S_IFBLK|0o600, int(rdev)))
	if m.mapped == m.disks {
		m.multipath(rdev)
	}
	m.attribute(filepath.Join(unit, "delete"), func(string) {
		m.deletes = append(m.deletes, name)
		os.Remove(m.path("sys/block", name))
		os.Remove(m.path("dev", name))
		os.RemoveAll(unit)
	})
	// The number is what a login waits for.
	number := fmt.Appendf(nil, "%d:%d\n", unix.Major(rdev), unix.Minor(rdev))
	must(m.t, os.WriteFile(filepath.Join(unit, "block", name, "dev"), number, 0o600))
}

// multipath makes a multipath device of all disks.
func (m *machine) multipath(number uint64) {
	if m.mapping != "" {
		number = numberOf(m.t, m.mapping)
	}
	must(m.t, os.MkdirAll(m.path("sys/block/dm-0/holders"), 0o750))
	must(m.t, os.MkdirAll(m.path("sys/block/dm-0/slaves"), 0o750))
	must(m.t, os.MkdirAll(m.path("sys/block/dm-0/dm"), 0o750))
	must(m.t, os.WriteFile(m.path("sys/block/dm-0/dm/uuid"), []byte("mpath-1\n"), 0o600))
	must(m.t, os.WriteFile(m.path("sys/block/dm-0/dm/name"), []byte("mpatha\n"), 0o600))
	must(m.t, os.WriteFile(m.path("sys/block/dm-0/dev"), fmt.Appendf(nil, "%d:%d\n", unix.Major(number), unix.Minor(number)), 0o600))
	must(m.t, unix.Mknod(m.path("dev/dm-0"), unix.S_IFBLK|0o600, int(number)))
	remove := "#!/bin/sh\n[ \"$*\" = '-f mpatha' ] || exit 1\nrm -r " + m.path("sys/block/dm-0") + " " + m.path("dev/dm-0")
	for i := range m.disks {
		name := "sd" + string(rune('a'+i))
		must(m.t, os.WriteFile(m.path("sys/block", name, "holders/dm-0"), nil, 0o600))
		must(m.t, os.WriteFile(m.path("sys/block/dm-0/slaves", name), nil, 0o600))
		remove += " " + m.path("sys/block", name, "holders/dm-0")
	}
	must(m.t, os.WriteFile(m.path("bin/multipath"), []byte(remove+"\n"), 0o755))
}

func numberOf(t *testing.T, device string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(device, &st))
	return st.Rdev
}

// run runs iscsiadm as the machine's owner does.
func (m *machine) run(args ...string) {
	m.t.Helper()
	if out, err := exec.Command(m.path("bin/iscsiadm"), args...).CombinedOutput(); err != nil {
		m.t.Fatalf("iscsiadm %q: %v: %s", args, err, out)
	}
}

func node(portal string) []string {
	return []string{"-m", "node", "-T", target, "-p", portal, "-I", "default"}
}

// hasSession reports whether there is a session to the portal, and hasNode whether open-iscsi has a record of it.
func (m *machine) hasSession(portal string) bool { return exists(m.path("up", portal)) }

func (m *machine) hasNode(portal string) bool {
	return exists(m.path("nodes", target+","+portal))
}

// written returns what was written to the kernel since the last call.
func (m *machine) written() (scans, deletes []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	scans, deletes = m.scans, m.deletes
	m.scans, m.deletes = nil, nil
	return scans, deletes
}

// calls returns the calls of iscsiadm since the last call.
func (m *machine) calls() string {
	m.t.Helper()
	data, err := os.ReadFile(m.path("log"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	os.Remove(m.path("log"))
	return string(data)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// loop returns a loop device of a new file.
func loop(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, 16<<20))
	return loopOf(t, file)
}

// loopOf returns a loop device of the file.
func loopOf(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		roottest.Able(t, &os.PathError{Op: "losetup " + strings.TrimSpace(string(out)), Path: file, Err: err})
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	return device
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
