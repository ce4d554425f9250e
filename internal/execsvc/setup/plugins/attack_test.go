package plugins

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstream/podstream/internal/roottest"
)

// serveRaw handles each connection of a socket in the registry, until the test ends.
func serveRaw(t *testing.T, path string, handle func(net.Conn)) {
	t.Helper()
	l := listen(t, path)
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			all.Go(func() { handle(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
}

// silence accepts and never answers.
func silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestHungPlugins: sockets that accept and never answer, and drivers that hang in the calls of their Kind, delay no other plugin. Their
// attempts end.
func TestHungPlugins(t *testing.T) {
	n := newNode(t, nil)
	n.limits = limits{info: 300 * time.Millisecond, open: 300 * time.Millisecond, notify: 300 * time.Millisecond}
	for i := range 100 {
		serveRaw(t, filepath.Join(n.root, fmt.Sprintf("hung-%d.sock", i)), silence)
	}
	n.kind.hang = map[string]bool{"stuck.csi": true}
	stuck := n.start(t, "stuck.sock", n.info(t, CSIPlugin, "stuck.csi", "s.sock", "1.0.0"))
	n.run(t)
	stuck.refused(t, "deadline exceeded")
	await(t, "the end of the hung attempts", func() bool {
		return n.log.Count("can't be registered", "hung-", "no answer within 300ms") == 100
	})
	n.start(t, "good.sock", n.info(t, CSIPlugin, "good.csi", "good.sock", "1.0.0")).accepted(t)
	n.want(t, "use good.csi good.sock")
}

// hugePlugin answers with a type of 100 MB.
type hugePlugin struct {
	registration.UnimplementedRegistrationServer
}

func (hugePlugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: strings.Repeat("x", 100<<20)}, nil
}

// TestLargeAnswers: neither a large message nor a stream of bytes that isn't HTTP/2 is taken.
func TestLargeAnswers(t *testing.T) {
	n := newNode(t, nil)
	server := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	registration.RegisterRegistrationServer(server, hugePlugin{})
	done := make(chan error, 1)
	l := listen(t, filepath.Join(n.root, "huge.sock"))
	go func() { done <- server.Serve(l) }()
	defer func() { server.Stop(); <-done }()
	n.limits.info = 2 * time.Second
	serveRaw(t, filepath.Join(n.root, "raw.sock"), func(conn net.Conn) {
		chunk := make([]byte, 1<<20)
		for range 100 {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	})
	n.run(t)
	await(t, "the refusals", func() bool {
		return n.log.Count("can't be registered", "huge.sock", "ResourceExhausted", "larger than max") > 0 &&
			n.log.Count("can't be registered", "raw.sock") > 0
	})
}

// TestManyFiles: 10,000 files in the registry, and too many directories, don't hide a plugin. Of too many sockets 256 are used, and the
// registered ones stay.
func TestManyFiles(t *testing.T) {
	n := newNode(t, nil)
	n.limits.info = 3 * time.Second
	for i := range 10_000 {
		must(t, os.WriteFile(filepath.Join(n.root, fmt.Sprintf("junk-%d", i)), nil, 0o600))
	}
	n.run(t)
	n.start(t, "good.sock", n.info(t, CSIPlugin, "good.csi", "good.sock", "1.0.0")).accepted(t)
	n.want(t, "use good.csi good.sock")
	for i := range maxDirs + 1 {
		must(t, os.Mkdir(filepath.Join(n.root, fmt.Sprintf("dir-%d", i)), 0o700))
	}
	await(t, "the bound of directories", func() bool { return n.log.Count("more than 128 directories aren't read") == 1 })
	for i := range maxSockets + 10 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(n.root, fmt.Sprintf("s-%d", i))}))
		must(t, unix.Close(fd))
	}
	await(t, "the bound of sockets", func() bool { return n.log.Count("there are more than 256 sockets") == 1 })
	await(t, "the reason", func() bool { return n.log.Count("can't be registered", "no process listens on the socket") > 0 })
	if got := n.Statuses(); len(got) != maxSockets || statusOf(n, "good.sock").State != Serving {
		t.Errorf("%d sockets; the good one is %+v", len(got), statusOf(n, "good.sock"))
	}
	if len(n.kind.events) > 0 {
		t.Errorf("event %q", <-n.kind.events)
	}
}

// TestDeepDirectories: directories are read to a depth, and links in the registry aren't followed.
func TestDeepDirectories(t *testing.T) {
	n := newNode(t, nil)
	outside := filepath.Join(n.dir, "outside")
	n.start(t, "../outside/x.sock", n.info(t, CSIPlugin, "x.csi", "x.sock", "1.0.0"))
	must(t, os.Symlink(outside, filepath.Join(n.root, "dir")))
	must(t, os.Symlink(filepath.Join(outside, "x.sock"), filepath.Join(n.root, "x.sock")))
	n.start(t, "1/2/3/4/5/deep.sock", n.info(t, CSIPlugin, "deep.csi", "d.sock", "1.0.0"))
	n.run(t)
	n.start(t, "1/2/3/4/good.sock", n.info(t, CSIPlugin, "good.csi", "good.sock", "1.0.0")).accepted(t)
	n.want(t, "use good.csi good.sock")
	if len(n.Statuses()) != 1 || n.log.Count("more than 4 deep") != 1 {
		t.Errorf("the sockets are %+v\n%s", n.Statuses(), n.log.String())
	}
}

// TestBadAnswers: answers that break a rule are refused with the reason.
func TestBadAnswers(t *testing.T) {
	n := newNode(t, nil)
	outside := filepath.Join(n.dir, "containerd", "containerd.sock")
	listen(t, outside)
	must(t, os.WriteFile(filepath.Join(n.plugins, "file"), nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(n.plugins, "link.sock")))
	must(t, os.Symlink("../containerd", filepath.Join(n.plugins, "linked")))
	good := n.info(t, CSIPlugin, "a.csi", "good.sock", "1.0.0").GetEndpoint()
	long := make([]string, maxVersions+1)
	for i := range long {
		long[i] = "1.0.0"
	}
	n.run(t)
	for i, tc := range []struct {
		kind, name, endpoint string
		versions             []string
		reason               string
	}{
		{"", "a.csi", good, nil, "its type"},
		{"Unknown", "a.csi", good, nil, `plugins of the type "Unknown" aren't supported`},
		{CSIPlugin, "", good, nil, "its name"},
		{CSIPlugin, strings.Repeat("a", 60<<10), good, nil, "its name"},
		{CSIPlugin, "a\nb", good, nil, "its name"},
		{CSIPlugin, "a.csi", good, long, "33 versions"},
		{CSIPlugin, "a.csi", good, []string{strings.Repeat("1", 200)}, "its version"},
		{CSIPlugin, "a.csi", "../../run/containerd/containerd.sock", nil, "isn't an absolute path"},
		{CSIPlugin, "a.csi", "unix://" + good, nil, "isn't an absolute path"},
		{CSIPlugin, "a.csi", n.plugins + "/../../../run/containerd/containerd.sock", nil, "isn't beneath"},
		{CSIPlugin, "a.csi", outside, nil, "isn't beneath"},
		{CSIPlugin, "a.csi", n.plugins, nil, "isn't beneath"},
		{CSIPlugin, "a.csi", "/" + strings.Repeat("a", 5000), nil, "isn't an absolute path"},
		{CSIPlugin, "a.csi", n.plugins + "/file", nil, "isn't a Unix socket: it is a regular file"},
		{CSIPlugin, "a.csi", n.plugins + "/none.sock", nil, "no such file"},
		{CSIPlugin, "a.csi", n.plugins + "/link.sock", nil, "leads through a symbolic link or out of its directory"},
		{CSIPlugin, "a.csi", n.plugins + "/linked/containerd.sock", nil, "leads through a symbolic link or out of its directory"},
	} {
		p := n.start(t, fmt.Sprintf("%d.sock", i), &registration.PluginInfo{
			Type: tc.kind, Name: tc.name, Endpoint: tc.endpoint, SupportedVersions: tc.versions,
		})
		p.refused(t, tc.reason)
		p.stop()
	}
	if len(n.kind.events) > 0 {
		t.Errorf("event %q", <-n.kind.events)
	}
	// A link within plugins is followed where the kernel can bound it, and no endpoint means the registration socket.
	must(t, os.Symlink("good.sock", filepath.Join(n.plugins, "inner.sock")))
	n.start(t, "in.sock", &registration.PluginInfo{
		Type: CSIPlugin, Name: "in.csi", Endpoint: n.plugins + "/inner.sock", SupportedVersions: []string{"1"},
	}).accepted(t)
	n.want(t, "use in.csi inner.sock")
	n.start(t, "own.sock", &registration.PluginInfo{Type: CSIPlugin, Name: "own.csi", SupportedVersions: []string{"1"}}).accepted(t)
	n.want(t, "use own.csi own.sock")
}

// TestOtherUser: neither a registration socket nor an endpoint of another user is used.
func TestOtherUser(t *testing.T) {
	roottest.Need(t, "changing the owner of a socket")
	n := newNode(t, nil)
	p := n.start(t, "../aside/p.sock", n.info(t, CSIPlugin, "p.csi", "p.sock", "1.0.0"))
	aside := filepath.Join(n.dir, "aside", "p.sock")
	must(t, os.Chown(aside, 1000, 1000))
	must(t, os.Rename(aside, filepath.Join(n.root, "p.sock")))
	info := n.info(t, CSIPlugin, "q.csi", "q.sock", "1.0.0")
	must(t, os.Chown(info.GetEndpoint(), 1000, 1000))
	n.run(t)
	n.start(t, "q.sock", info).refused(t, "belongs to the user 1000")
	await(t, "the refusal", func() bool { return n.log.Count("p.sock belongs to the user 1000") == 1 })
	if len(p.asked)+len(n.kind.events) > 0 {
		t.Error("the plugin was asked")
	}
}

// TestSwapped: a registration socket that is swapped between GetInfo and the registration doesn't take the name that the answer had.
func TestSwapped(t *testing.T) {
	n := newNode(t, nil)
	endpoint := n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0")
	block := make(chan struct{})
	n.kind.block = map[string]chan struct{}{"a.csi": block}
	p := n.start(t, "p.sock", endpoint)
	stop := n.run(t)
	release := sync.OnceFunc(func() { close(block) })
	defer release()
	<-p.asked // Its goroutine is in Open, or on the way there.
	other := n.start(t, "../aside/o.sock", n.info(t, CSIPlugin, "other.csi", "o.sock", "1.0.0"))
	must(t, os.Rename(filepath.Join(n.dir, "aside", "o.sock"), filepath.Join(n.root, "p.sock")))
	other.accepted(t)
	n.want(t, "use other.csi o.sock")
	release()
	stop()
	for len(n.kind.events) > 0 {
		if got := <-n.kind.events; !strings.HasPrefix(got, "close ") {
			t.Errorf("event %q", got)
		}
	}
	if n.log.Count("a.csi") > 0 {
		t.Errorf("the log is\n%s", n.log.String())
	}
}

// TestEndpointSwapped: an opened endpoint connects to the file that was checked, also if its path leads elsewhere by then. Opened again
// it is refused.
func TestEndpointSwapped(t *testing.T) {
	n := newNode(t, nil)
	outside := listen(t, filepath.Join(n.dir, "containerd.sock"))
	inside := listen(t, filepath.Join(n.plugins, "a.sock"))
	e, err := NewEndpoint(filepath.Join(n.plugins, "a.sock"), n.plugins)
	must(t, err)
	socket, err := e.Open()
	must(t, err)
	defer socket.Close()
	inside.SetUnlinkOnClose(false)
	must(t, os.Rename(e.String(), e.String()+".old"))
	must(t, os.Symlink(outside.Addr().String(), e.String()))
	conn, err := socket.Dial(t.Context())
	must(t, err)
	defer conn.Close()
	must(t, inside.SetDeadline(time.Now().Add(patience)))
	accepted, err := inside.Accept()
	must(t, err)
	accepted.Close()
	if again, err := e.Open(); err == nil {
		again.Close()
		t.Error("the link is followed")
	}
}
