package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchdogTime is the time without a sign of progress after which a daemon is killed. It is that of the daemons' units.
	watchdogTime = time.Minute
	// maxNotice bounds a message of a daemon in bytes. The rest of a longer one is lost.
	maxNotice = 4096
	// noticesName is the name of the directory of these sockets, in that of the daemons' sockets. podconfigd can write to that,
	// and not to this one, where it could put something in the place of podexecd's socket.
	//
	// The path of no socket in it is longer than podconfigd's: a directory that is short enough for that is so for these too.
	noticesName = "notify"
	// launcherSocket is the name of the socket that shows that the launcher runs.
	launcherSocket = "kubelet"
	// maxReports bounds the signals to a hung process that wait to be logged.
	maxReports = 8
)

// noticesOf are the names of the daemons' sockets for their messages.
var noticesOf = map[string]string{"podconfigd": "config", "podexecd": "exec"}

// notices is the socket that a daemon sends its messages to, as it does to systemd: readiness, status and progress
// (sd_notify(3)). It belongs to the daemon's user, and no other user can send to it.
type notices struct {
	conn net.PacketConn
	path string
}

// listenNotices creates the socket. One that an earlier start left is replaced.
func listenNotices(path string, uid, gid int) (*notices, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		// The file gets this mode at its creation.
		failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(failed, err)
	}}
	conn, err := config.ListenPacket(context.Background(), "unixgram", path)
	if err != nil {
		return nil, err
	}
	n := &notices{conn: conn, path: path}
	if err := os.Lchown(path, uid, gid); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *notices) close() {
	_ = n.conn.Close()
	_ = os.Remove(n.path)
}

// environment returns the variables by which the daemon finds the socket, and sends signs of progress.
func (n *notices) environment(watchdog time.Duration) []string {
	return []string{"NOTIFY_SOCKET=" + n.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())}
}

// watch receives the messages of a process of the daemon until the socket is closed. Once the process is ready, it must
// send a sign of progress in each period of the watchdog. Otherwise it gets SIGABRT, by which it prints what hangs, and a
// quarter of the period later SIGKILL.
//
// The period is counted in quarters, as one may end while the launcher itself was stopped, and the messages wait.
func (c *child) watch(n *notices) {
	var ready bool
	var missed int
	buffer := make([]byte, maxNotice)
	due := time.Now().Add(c.watchdog / 4)
	for {
		_ = n.conn.SetReadDeadline(due) // The connection is open, or the next call fails.
		size, _, err := n.conn.ReadFrom(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			due = time.Now().Add(c.watchdog / 4)
			if missed++; ready {
				c.missed(missed)
			}
		case err != nil:
			return
		}
		began := false
		for variable := range strings.SplitSeq(string(buffer[:size]), "\n") {
			name, value, _ := strings.Cut(variable, "=")
			switch {
			case name == "READY" && value == "1":
				ready, missed, began = true, 0, true
			case name == "WATCHDOG" && value == "1" && !c.hangs.Load():
				missed, due = 0, time.Now().Add(c.watchdog/4)
			case name == "STATUS":
				c.setStatus(value)
			}
		}
		if began {
			c.begin.Do(func() { close(c.ready) })
		}
	}
}

// missed ends a process that has sent no sign of progress for so many quarters of the watchdog's period.
func (c *child) missed(quarters int) {
	end := unix.SIGABRT
	switch {
	case quarters < 4:
		return
	case quarters > 4:
		end = unix.SIGKILL
	}
	c.hangs.Store(true)
	var err error
	if p := c.process.Load(); p != nil {
		err = p.Signal(end)
	}
	select {
	case c.reports <- report{end, err}:
	default: // The log can't be written, and has enough of them.
	}
}

// report is a signal to a process that hangs.
type report struct {
	signal unix.Signal
	err    error
}

// logReports logs the signals to a process that hangs, until the channel is closed. Only this waits for the log: SIGKILL must
// not, as a log that isn't read can be the reason why the process hangs.
func (c *child) logReports(reports <-chan report) {
	for r := range reports {
		log := c.log.With("child", c.name, "watchdog", c.watchdog, "signal", r.signal.String())
		log.Error("the daemon makes no progress, and is killed")
		if r.err != nil && !errors.Is(r.err, os.ErrProcessDone) {
			log.Warn("the daemon can't be signaled", "error", r.err)
		}
	}
}

// setStatus records what the daemon reports of itself.
func (c *child) setStatus(text string) {
	if c.changed != nil {
		c.status.Store(&text)
		c.changed()
	}
}

// alive returns an error if a daemon hangs. One that ended is started again, and doesn't hang.
func alive(children []*child) error {
	for _, c := range children {
		if c.hangs.Load() {
			return fmt.Errorf("%s makes no progress", c.name)
		}
	}
	return nil
}

// statusOf returns the daemons' statuses in one line.
func statusOf(children []*child) string {
	var parts []string
	for _, c := range children {
		if text := c.status.Load(); text != nil && *text != "" {
			parts = append(parts, c.name+": "+*text)
		}
	}
	return strings.Join(parts, "; ")
}
