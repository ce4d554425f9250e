package devnode

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeIPs are the node's addresses in a separate network namespace. They are in the ranges for documentation, and
// aren't routed.
var NodeIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1")}

// namespaceRanges are the pods' addresses in such a namespace. They are the same for all nodes, because the namespaces
// are separate, and differ from the addresses outside.
var namespaceRanges = []netip.Prefix{netip.MustParsePrefix("10.214.0.0/24"), netip.MustParsePrefix("fd00:214::/64")}

// namespaceSetup is the input of `ip -batch`: the loopback interface, and an interface with the node's addresses and
// the default route, by which podexecd detects the node's addresses.
var namespaceSetup = strings.NewReplacer("{v4}", NodeIPs[0].String(), "{v6}", NodeIPs[1].String()).Replace(`
link set lo up
link add eth0 type veth peer name outside
link set outside up
link set eth0 up
address add {v4}/24 dev eth0
address add {v6}/64 dev eth0 nodad
route add default dev eth0
`)

// makeNamespace creates a network namespace and mounts it at path. It exists as long as this mount or a process in it.
func makeNamespace(path string) error {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("make the node's network namespace: %w", err)
	}
	err := elsewhere(
		func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		func() error {
			if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("mount it: %w", err)
			}
			ip := exec.Command("ip", "-batch", "-")
			ip.Stdin = strings.NewReader(namespaceSetup)
			if output, err := ip.CombinedOutput(); err != nil {
				return fmt.Errorf("set it up: ip: %w\n%s", err, output)
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("make the node's network namespace: %w", err)
	}
	return nil
}

// InNetwork calls do on a thread in the node's network namespace, so that its connections come from the node. Its
// sockets stay in that namespace, but goroutines that it starts run outside. Names must be resolved before. Without
// Config.NetworkNamespace, it only calls do.
func (n *Node) InNetwork(do func() error) error {
	if n.network.namespace == "" {
		return do()
	}
	return elsewhere(func() error {
		namespace, err := os.Open(n.network.namespace)
		if err != nil {
			return err
		}
		return errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close())
	}, do)
}

// elsewhere calls do on a thread that enter has moved to another network namespace, and moves the thread back.
func elsewhere(enter, do func() error) (err error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	defer func() {
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("return to the network namespace of the process: %w", back))
			return // without unlocking: a locked thread runs no other goroutine, and ends with its own
		}
		runtime.UnlockOSThread()
	}()
	if err := enter(); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return do()
}
