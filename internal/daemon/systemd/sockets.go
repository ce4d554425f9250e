package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Socket is a listening Unix socket of a socket unit.
type Socket struct {
	net.Listener
	// Name is FileDescriptorName= of the unit; by default the unit's own name.
	Name string
	// Path is the socket's path.
	Path string
}

// Sockets returns the listening sockets that systemd has passed to this process, and removes their variables from the
// environment. Later calls return none. Closing a Socket leaves its file: systemd goes on listening.
func Sockets() ([]Socket, error) {
	var out []Socket
	var problems []error
	for _, file := range activation.Files(true) {
		s, err := socketOf(file)
		_ = file.Close() // The listener has a descriptor of its own.
		if err != nil {
			problems = append(problems, fmt.Errorf("socket %s from systemd: %w", file.Name(), err))
			continue
		}
		out = append(out, s)
	}
	if len(problems) == 0 {
		return out, nil
	}
	for _, s := range out {
		_ = s.Close()
	}
	return nil, errors.Join(problems...)
}

func socketOf(file *os.File) (Socket, error) {
	l, err := net.FileListener(file)
	if err != nil {
		return Socket{}, err
	}
	address, ok := l.Addr().(*net.UnixAddr)
	listening, err := unix.GetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN) //nolint:gosec // A file descriptor is an int.
	switch {
	case !ok || address.Net != "unix" || !filepath.IsAbs(address.Name):
		err = fmt.Errorf("%s://%s is not a Unix stream socket with a path (ListenStream=/path)", l.Addr().Network(), l.Addr())
	case err == nil && listening == 0:
		err = errors.New("it doesn't listen; Accept=no is needed")
	}
	if err != nil {
		_ = l.Close()
		return Socket{}, err
	}
	return Socket{Listener: l, Name: file.Name(), Path: filepath.Clean(address.Name)}, nil
}
