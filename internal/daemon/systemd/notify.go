package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// notifySocket is the variable with the address that systemd receives messages at.
	notifySocket = "NOTIFY_SOCKET"
	// sendTimeout bounds the wait for a systemd that doesn't read.
	sendTimeout = time.Second
	// readyInterval is the time that one attempt to become ready may take, and that between two attempts.
	readyInterval = time.Second
	// maxStatus bounds a status in bytes.
	maxStatus = 400
)

// Config configures a Notifier.
type Config struct {
	// Alive returns nil if the main part of the daemon makes progress, and otherwise, at the latest when ctx ends, an
	// error that says what hangs. It is called from the goroutine of Run: first until the daemon is ready, then four
	// times in each period of the watchdog.
	Alive func(ctx context.Context) error
	// Logger gets a line if the daemon makes no progress, and if systemd can't be reached. Nil discards.
	Logger *slog.Logger
}

// Notifier informs systemd of the state of the daemon.
type Notifier struct {
	cfg Config
	// socket is empty if systemd doesn't ask for messages.
	socket string
	// watchdog is the time without progress after which systemd restarts the daemon. Zero: it doesn't.
	watchdog time.Duration
	changed  chan struct{}

	mu     sync.Mutex
	status string

	// unsent is the error that was logged last. hung is set while there is no progress. Only Run's goroutine uses them.
	unsent string
	hung   bool
}

// New returns the Notifier of this process, and removes systemd's variables from the environment.
func New(cfg Config) *Notifier {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Notifier{cfg: cfg, socket: os.Getenv(notifySocket), changed: make(chan struct{}, 1)}
	_ = os.Unsetenv(notifySocket) // It fails only for a name with NUL or =.
	// Zero if WATCHDOG_PID names another process.
	watchdog, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		cfg.Logger.Error("the watchdog of systemd can't be used: systemd may restart this daemon", "error", err)
	}
	n.watchdog = watchdog
	return n
}

// SetStatus sets the line that `systemctl status` shows. It doesn't block.
func (n *Notifier) SetStatus(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status == text {
		return
	}
	n.status = text
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Run reports that the daemon is ready once it is alive, and then its status and progress, until ctx ends. Then it
// reports that the daemon stops. Without systemd it only waits for the end of ctx.
func (n *Notifier) Run(ctx context.Context) {
	if n.socket == "" {
		<-ctx.Done()
		return
	}
	defer n.send(daemon.SdNotifyStopping, statusLine("stopping"))
	for !n.alive(ctx, readyInterval) {
		// Alive may fail at once.
		select {
		case <-ctx.Done():
			return
		case <-time.After(readyInterval):
		}
	}
	n.send(daemon.SdNotifyReady, n.statusLine())
	var due <-chan time.Time
	if n.watchdog > 0 {
		ticker := time.NewTicker(n.watchdog / 4)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
			n.send(n.statusLine())
		case <-due:
			if n.alive(ctx, n.watchdog/4) {
				n.send(daemon.SdNotifyWatchdog)
			}
		}
	}
}

// alive reports whether the daemon makes progress within the time.
func (n *Notifier) alive(ctx context.Context, within time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := n.cfg.Alive(limited)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !n.hung:
		n.cfg.Logger.Error("no progress; the watchdog of systemd restarts this daemon if this goes on", "error", err, "watchdog", n.watchdog)
		n.send(statusLine("no progress: " + err.Error()))
	case err == nil && n.hung:
		n.cfg.Logger.Info("progress again")
		n.send(n.statusLine())
	}
	n.hung = err != nil
	return err == nil
}

func (n *Notifier) statusLine() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return statusLine(n.status)
}

// statusLine returns the variable STATUS. A status may quote a remote server, and each line of a message is a variable
// that systemd acts on: so a status has no line ends.
func statusLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "") + "…"
	}
	return "STATUS=" + text
}

// send sends variables in one message. An error is logged unless it is the last one again.
func (n *Notifier) send(variables ...string) {
	err := sendTo(n.socket, strings.Join(variables, "\n"))
	if err == nil {
		n.unsent = ""
		return
	}
	if err.Error() != n.unsent {
		n.cfg.Logger.Error("systemd can't be informed of the daemon's state", "error", err)
	}
	n.unsent = err.Error()
}

func sendTo(socket, message string) error {
	// A first @ means an abstract address, for package net too.
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return fmt.Errorf("%s=%q is not the address of a Unix socket", notifySocket, socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	err = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, failed := conn.Write([]byte(message)); failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}
