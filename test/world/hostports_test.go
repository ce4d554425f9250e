package world

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// TestHostPorts: a connection to a port of the node reaches the container that has this hostPort, at the addresses of
// hostIP. Two pods can't have the same port. The second pod gets it soon after the first one has been removed.
func TestHostPorts(t *testing.T) {
	t.Parallel()
	on(t, containerds, func(t *testing.T, b *bench) {
		port := func(name, ports string) *pod {
			p := newPod(t, b, name)
			p.write("", `
volumes: [{name: guest, hostPath: {path: "{{guest}}", type: File}}]
containers: [{name: main, command: [/guest, answer, "80"], volumeMounts: [{name: guest, mountPath: /guest}], ports: `+ports+`}]`, nil, nil)
			return p
		}
		v4, v6 := devnode.NodeIPs[0].String(), devnode.NodeIPs[1].String()
		first := port("port first", `[{containerPort: 80, hostPort: 18080}]`)
		first.awaitLine("main", "listening")
		for _, ip := range []string{"127.0.0.1", v4, v6} {
			b.wantAnswer(t, "tcp", ip, "18080", first.name)
		}

		second := port("port second", `[{containerPort: 80, hostPort: 18080, hostIP: 127.0.0.1}]`)
		second.awaitRefusal("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")

		other := port("port of another protocol", `[{containerPort: 80, hostPort: 18080, protocol: UDP},
  {containerPort: 80, hostPort: 18081, hostIP: 127.0.0.1, protocol: UDP}, {containerPort: 80, hostPort: 18082, hostIP: "`+v6+`"}]`)
		other.awaitLine("main", "listening")
		for _, ip := range []string{"127.0.0.1", v4, v6} {
			b.wantAnswer(t, "udp", ip, "18080", other.name)
			b.wantAnswer(t, "tcp", ip, "18080", first.name)
		}
		b.wantAnswer(t, "udp", "127.0.0.1", "18081", other.name)
		b.wantNone(t, "udp", v4, "18081")
		b.wantAnswer(t, "tcp", v6, "18082", other.name)
		b.wantNone(t, "tcp", v4, "18082")

		second.awaitReadyAfter(first.remove)
		second.awaitLine("main", "listening")
		b.wantAnswer(t, "tcp", "127.0.0.1", "18080", second.name)
		b.wantNone(t, "tcp", v4, "18080")
		b.wantNone(t, "tcp", v6, "18080")
	})
}

// awaitLine waits until the pod is ready, and expects the container's first line to be want.
func (p *pod) awaitLine(container, want string) {
	p.t.Helper()
	l, err := p.followLog(p.awaitReady(), container)
	check(p.t, err)
	defer l.close()
	line, err := l.next()
	check(p.t, err)
	check(p.t, same("what it printed", string(line), want))
}

// request connects from the node to a port at an address of the node, and returns the answer.
func (b *bench) request(network, ip, port string) (answer string, err error) {
	var c net.Conn
	err = b.Node.InNetwork(func() error {
		c, err = net.DialTimeout(network, net.JoinHostPort(ip, port), patience)
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if network == "udp" {
		if _, err := c.Write([]byte("who?")); err != nil {
			return "", err
		}
	}
	buffer := make([]byte, 100)
	n, err := c.Read(buffer)
	return string(buffer[:n]), err
}

// wantAnswer expects the pod of that name to answer.
func (b *bench) wantAnswer(t *testing.T, network, ip, port, pod string) {
	t.Helper()
	got, err := b.request(network, ip, port)
	if err != nil || got != pod {
		t.Errorf("%s %s port %s is answered by %q, %v; want %s", network, ip, port, got, err, pod)
	}
}

// wantNone expects that no process listens.
func (b *bench) wantNone(t *testing.T, network, ip, port string) {
	t.Helper()
	if got, err := b.request(network, ip, port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s %s port %s is answered by %q, %v; want it refused", network, ip, port, got, err)
	}
}
