package devnode

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/roottest"
)

// networkID returns the identity of the network namespace in which InNetwork runs, for instance "net:[4026531840]".
func (n *Node) networkID() (id string, err error) {
	err = n.InNetwork(func() error {
		id, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	return id, err
}

// awaitNamespaceGone waits until no process and no mount refers to the network namespace.
func awaitNamespaceGone(t *testing.T, id string) {
	t.Helper()
	users := func() []string {
		tasks, err := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		found := slices.DeleteFunc(tasks, func(path string) bool {
			has, err := os.Readlink(path)
			return err != nil || has != id // the thread may have ended in the meantime
		})
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, " "+id+" ") {
				found = append(found, line)
			}
		}
		return found
	}
	deadline := time.Now().Add(time.Minute)
	left := users()
	for ; len(left) > 0 && time.Now().Before(deadline); left = users() {
		runtime.Gosched()
	}
	if len(left) > 0 {
		t.Errorf("the network namespace %s is left: %q", id, left)
	}
}

// TestNetworkNamespace: in a node's separate network, pods have two addresses and host ports. Nothing is visible
// outside.
func TestNetworkNamespace(t *testing.T) {
	for name, kind := range everyContainerd {
		t.Run(name, func(t *testing.T) {
			node := startNode(t, Config{Dir: t.TempDir(), Runtime: kind, NetworkNamespace: true})
			cri, err := connect(t.Context(), node.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			defer cri.Close(context.Background())
			testNetwork(t, node, cri)
			id, err := node.networkID()
			if err != nil {
				t.Fatal(err)
			}
			if err := node.Close(); err != nil {
				t.Fatal(err)
			}
			awaitNamespaceGone(t, id)
			if found := traces(t, node.Dir()); len(found) > 0 {
				t.Errorf("left after Close:\n%s", strings.Join(found, "\n"))
			}
		})
	}
}

func testNetwork(t *testing.T, node *Node, cri internalapi.RuntimeService) {
	p, err := runPod(t.Context(), cri, node.Path("pods"), "seen",
		&runtimeapi.PortMapping{HostPort: 18080, ContainerPort: 8080}, &runtimeapi.PortMapping{HostPort: 18081, ContainerPort: 8080, HostIp: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.moreIPs) != 1 || net.ParseIP(p.ip).To4() == nil || net.ParseIP(p.moreIPs[0]).To4() != nil {
		t.Fatalf("addresses %s %s; want one IPv4 and one IPv6 address", p.ip, p.moreIPs)
	}
	for _, address := range []string{
		net.JoinHostPort(p.ip, "8080"), net.JoinHostPort(p.moreIPs[0], "8080"), "127.0.0.1:18080", "127.0.0.1:18081",
		net.JoinHostPort(NodeIPs[0].String(), "18080"), net.JoinHostPort(NodeIPs[1].String(), "18080"),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := get(ctx, node, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		cancel()
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && slices.ContainsFunc(NodeIPs, func(ip netip.Addr) bool { return n.IP.Equal(ip.AsSlice()) }) {
			t.Errorf("the machine has the node's address %s", a)
		}
	}
}

// TestInNetwork: the thread is moved back after each call. Without a namespace it isn't moved.
func TestInNetwork(t *testing.T) {
	roottest.Need(t, "a network namespace")
	n := bareNode(t, t.TempDir(), nil)
	outside, err := n.networkID()
	if err != nil {
		t.Fatal(err)
	}
	path := n.Path("network")
	if err := makeNamespace(path); err != nil {
		t.Fatal(err)
	}
	n.network = network{namespace: path}
	inside, err := n.networkID()
	if err != nil || inside == outside {
		t.Errorf("inside is %s, outside %s, %v", inside, outside, err)
	}
	wrong := errors.New("wrong")
	for range 100 { // on any thread
		done := make(chan error)
		go func() { done <- n.InNetwork(func() error { return wrong }) }()
		if err := <-done; !errors.Is(err, wrong) {
			t.Errorf("error %v", err)
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		if id, err := os.Readlink(task); err == nil && id != outside {
			t.Errorf("a thread is still in %s", id)
		}
	}
	n.network.namespace = n.Path("none")
	if err := n.InNetwork(func() error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a namespace: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	awaitNamespaceGone(t, inside)
}
