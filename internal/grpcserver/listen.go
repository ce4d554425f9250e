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

	"github.com/podstream/podstream/internal/access"
)

// ErrTCP is returned for a tcp:// address if there are no TLS files.
var ErrTCP = errors.New("TCP is served only with mutual TLS: give --tls-cert-file, --tls-private-key-file and --client-ca-file, or use unix:///path")

// Listen is ListenFor with callers that run as root or as this process's user, so for Unix sockets only.
func Listen(addresses []string) ([]net.Listener, error) { return ListenFor(nil, addresses) }

// ListenFor opens the listeners for addresses of the form unix:///path or tcp://host:port. A socket file without a
// listening process is replaced; one that is in use is an error. Beside each socket there is a lock file, PATH.lock,
// which stays. Sockets are accessible to their owner only (0600), unless a gives roles to other users: then any user
// may connect (0666), and a user without a role is refused by the kernel's credentials. Only access at the start
// determines the mode. With a nil a it is as Listen.
func ListenFor(a *access.Access, addresses []string) ([]net.Listener, error) {
	return ListenInherited(a, addresses, nil)
}

// ListenInherited is ListenFor, but uses the listening Unix sockets that the process was started with, by path, and
// removes from inherited those that it uses. Such a socket is locked, and gets the same mode, as one that ListenFor
// makes; its file stays when it is closed.
func ListenInherited(a *access.Access, addresses []string, inherited map[string]net.Listener) ([]net.Listener, error) {
	if a == nil {
		a = access.Local()
	}
	var out []net.Listener
	for _, address := range addresses {
		l, err := listen(a, address, inherited)
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

func listen(a *access.Access, address string, inherited map[string]net.Listener) (net.Listener, error) {
	if hostPort, ok := strings.CutPrefix(address, "tcp://"); ok {
		return listenTCP(a, hostPort)
	}
	path, ok := strings.CutPrefix(address, "unix://")
	switch {
	case !ok || !filepath.IsAbs(path):
		return nil, errors.New("not an address of the form unix:///path or tcp://host:port")
	case len(path) >= len(syscall.RawSockaddrUnix{}.Path):
		return nil, fmt.Errorf("the path has %d bytes; the kernel takes at most %d", len(path), len(syscall.RawSockaddrUnix{}.Path)-1)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	locked := &lockedListener{lock: lock}
	var taken bool
	if locked.Listener, taken = inherited[filepath.Clean(path)]; taken {
		delete(inherited, filepath.Clean(path))
		err = setMode(path, socketMode(a))
	} else {
		err = locked.listen(a, path)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return locked, nil
}

// socketMode returns the mode of a Unix socket.
func socketMode(a *access.Access) fs.FileMode {
	if a.OtherUsers() {
		return 0o666
	}
	return 0o600
}

func listenTCP(a *access.Access, hostPort string) (net.Listener, error) {
	if !a.TLS() {
		return nil, ErrTCP
	}
	if _, _, err := net.SplitHostPort(hostPort); err != nil {
		return nil, fmt.Errorf("not an address of the form tcp://host:port: %w", err)
	}
	return net.Listen("tcp", hostPort)
}

// checkStale returns an error unless there is no file, or the socket of a killed daemon.
func checkStale(path string) error {
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
		return errInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("see whether another process listens there: %w", err)
	}
	return nil
}
