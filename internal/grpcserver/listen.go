package grpcserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrTCP is returned for a tcp:// address.
var ErrTCP = errors.New("TCP is served only with mutual TLS, which this version doesn't have yet; use unix:///path")

// Listen opens the listeners for addresses of the form unix:///path. A socket file that nobody listens on any more is
// replaced; one that is in use is an error. Sockets are made for their owner only (0600).
func Listen(addresses []string) ([]net.Listener, error) {
	var out []net.Listener
	for _, address := range addresses {
		l, err := listen(address)
		if err != nil {
			for _, o := range out {
				_ = o.Close()
			}
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	switch {
	case strings.HasPrefix(address, "tcp://"):
		return nil, ErrTCP
	case !ok || !filepath.IsAbs(path):
		return nil, errors.New("not an address of the form unix:///path")
	case len(path) >= len(syscall.RawSockaddrUnix{}.Path):
		return nil, fmt.Errorf("the path has %d bytes; the kernel takes at most %d", len(path), len(syscall.RawSockaddrUnix{}.Path)-1)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The socket must never be there with wider permissions, so the umask makes it, not a chmod after. No other goroutine
	// makes files at this point of a daemon's start.
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// removeStale removes a socket that a killed daemon left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("the path exists and isn't a socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return errors.New("another process listens there already")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("see whether another process listens there: %w", err)
	}
	return os.Remove(path)
}
