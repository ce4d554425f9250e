package systemd_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user without a name.
const stranger = "12345"

// TestCallers: callers that connect while a daemon starts are served once it has; the socket keeps its file, its owner
// and the access of callers.
func TestCallers(t *testing.T) {
	for unit, tc := range map[string]struct {
		socket, flags string
		owner         string
		call          []string
	}{
		podconfigd: {"/run/podstream/podconfigd.sock", "PODCONFIGD_FLAGS", userID(t), []string{"/usr/local/bin/podctl", "sources"}},
		podexecd:   {"/run/podstream/podexecd.sock", "PODEXECD_FLAGS", "0", []string{"/usr/local/bin/podctl", "events"}},
	} {
		t.Run(unit, func(t *testing.T) {
			as := func(uid string) []string {
				// podctl reads its settings in the home directory, and root's is closed to others.
				return append([]string{"setpriv", "--reuid", uid, "--clear-groups", "--", "env", "HOME=/nonexistent"}, tc.call...)
			}
			before := socketOf(t, tc.socket)
			if fmt.Sprint(before.Uid) != tc.owner || before.Mode&0o777 != 0o600 {
				t.Errorf("the socket has owner %d and mode %o; want %s and 600", before.Uid, before.Mode&0o777, tc.owner)
			}
			if out, err := run(as(stranger)...); err == nil || !strings.Contains(out, tc.socket+": you may not open the socket") {
				t.Errorf("a user without a role reaches the socket: %v\n%s", err, out)
			}
			dropIn(t, unit, "ExecStartPre=/bin/sleep 3", "Environment="+tc.flags+"=--allow-uid=54321")
			for _, argv := range [][]string{{"systemctl", "restart", "--no-block", unit}, {"systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit}} {
				must(t, argv...)
				eventually(t, unit+" is starting", func() error {
					if state := show(t, unit, "SubState"); state != "start-pre" {
						return fmt.Errorf("it is %s", state)
					}
					return nil
				})
				conn, err := net.Dial("unix", tc.socket)
				if err != nil {
					t.Errorf("while it starts, a caller gets %v; want a connection that waits", err)
				} else {
					_ = conn.Close()
				}
				if state := show(t, unit, "SubState"); state != "start-pre" {
					t.Errorf("it is %s after the connection; want the caller to have come before the daemon", state)
				}
				if out, err := run(tc.call...); err != nil {
					t.Errorf("the call of a caller that waits: %v\n%s", err, out)
				}
				awaitActive(t, unit)
			}
			after := socketOf(t, tc.socket)
			if after.Ino != before.Ino || fmt.Sprint(after.Uid) != tc.owner || after.Mode&0o777 != 0o666 {
				t.Errorf("the socket is now file %d, owner %d, mode %o; want %d, %s and 666", after.Ino, after.Uid, after.Mode&0o777, before.Ino, tc.owner)
			}
			if _, err := run(as("54321")...); err != nil {
				t.Errorf("a user of --allow-uid: %v", err)
			}
			if out, err := run(as(stranger)...); err == nil || !strings.Contains(out, "no role for uid "+stranger) {
				t.Errorf("a user without a role is served: %v\n%s", err, out)
			}
		})
	}
}

func socketOf(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("the file has no owner")
	}
	return stat
}

// TestCallersLock: a second daemon doesn't take an inherited socket.
func TestCallersLock(t *testing.T) {
	for _, daemon := range []string{"podconfigd", "podexecd"} {
		out, err := run("/usr/local/bin/"+daemon, "--root-dir", t.TempDir())
		if err == nil || !strings.Contains(out, "/run/podstream/"+daemon+".sock.lock") {
			t.Errorf("a second %s ends with %v; want an error that names the lock:\n%s", daemon, err, out)
		}
	}
}
