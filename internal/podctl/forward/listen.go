package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// LocalError is an error of this machine, and not of podexecd or the pod.
type LocalError struct{ err error }

func (e *LocalError) Error() string { return e.err.Error() }

func (e *LocalError) Unwrap() error { return e.err }

// CheckAddresses returns the error of the first of Config.Addresses that isn't valid.
func CheckAddresses(texts []string) error {
	_, err := addressesOf(texts)
	if err == nil && len(texts) == 0 {
		err = errors.New("want at least one address")
	}
	return err
}

// address is one on which to listen.
type address struct {
	network, host string
	// optional is set if it is enough that another address of the same name works.
	optional bool
}

// addressesOf returns the addresses of --address. As with kubectl, localhost is 127.0.0.1 and ::1, of which one is
// enough.
func addressesOf(texts []string) ([]address, error) {
	var all []address
	for _, text := range texts {
		ip := net.ParseIP(text)
		switch {
		case text == "localhost":
			all = append(all, address{"tcp4", "127.0.0.1", true}, address{"tcp6", "::1", true})
		case ip == nil:
			return nil, fmt.Errorf("%q is neither an IP address nor localhost", text)
		case ip.To4() != nil:
			all = append(all, address{"tcp4", text, false})
		default:
			all = append(all, address{"tcp6", text, false})
		}
	}
	return all, nil
}

// listen listens on the addresses for a local port. If that is zero, the first address gets a free one, and the others
// the same.
func listen(ctx context.Context, addresses []address, local int) (listeners []net.Listener, port int, err error) {
	var (
		failed   []error
		optional bool
	)
	for _, a := range addresses {
		l, err := (&net.ListenConfig{}).Listen(ctx, a.network, net.JoinHostPort(a.host, strconv.Itoa(local)))
		if err != nil {
			failed = append(failed, err)
			if !a.optional {
				return nil, 0, errors.Join(append(failed, closeAll(listeners))...)
			}
			continue
		}
		listeners, optional = append(listeners, l), optional || a.optional
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			local = tcp.Port
		}
	}
	// One of the optional addresses must work, if there are any.
	wanted := false
	for _, a := range addresses {
		wanted = wanted || a.optional
	}
	if wanted && !optional {
		return nil, 0, errors.Join(append(failed, closeAll(listeners))...)
	}
	return listeners, local, nil
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
