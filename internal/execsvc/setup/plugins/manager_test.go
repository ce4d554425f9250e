package plugins

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/clocktest"
)

// TestRegister: a plugin is registered under the name of GetInfo, whether its socket is there before the Manager or comes later, at
// the top or in a directory. It is dropped when its socket goes. Names with a leading dot are ignored.
func TestRegister(t *testing.T) {
	n := newNode(t, nil)
	early := n.start(t, "early-reg.sock", n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0"))
	n.start(t, ".hidden.sock", n.info(t, CSIPlugin, "hidden.csi", "h.sock", "1.0.0"))
	n.start(t, ".dir/x.sock", n.info(t, CSIPlugin, "hidden2.csi", "h.sock", "1.0.0"))
	n.run(t)
	n.want(t, "use a.csi a.sock")
	early.accepted(t)
	late := n.start(t, "b.csi/deep/reg.sock", n.info(t, CSIPlugin, "b.csi", "b/b.sock", "1.0.0"))
	n.want(t, "use b.csi b.sock")
	late.accepted(t)
	early.stop()
	n.want(t, "drop a.csi a.sock")
	n.want(t, "close a.csi a.sock")
	late.stop()
	n.want(t, "drop b.csi b.sock")
	n.want(t, "close b.csi b.sock")
	if n.log.Count("plugin is registered", "plugin=a.csi") != 1 || n.log.Count("plugin is gone", "plugin=a.csi") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}
	if n.log.Count("hidden") > 0 || n.log.Count() != 4 {
		t.Errorf("the log is\n%s", n.log.String())
	}
}

// TestShutdown: at the end of Run plugins are closed but not dropped: they are still there.
func TestShutdown(t *testing.T) {
	n := newNode(t, nil)
	stop := n.run(t)
	p := n.start(t, "a.sock", n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0"))
	n.want(t, "use a.csi a.sock")
	p.accepted(t)
	stop()
	n.want(t, "close a.csi a.sock")
	if len(n.kind.events) > 0 {
		t.Errorf("event %q", <-n.kind.events)
	}
}

// TestMadeAgain: a socket that is made again at the same path is registered again, also if nothing was seen between.
func TestMadeAgain(t *testing.T) {
	c := clocktest.New()
	n := newNode(t, c)
	n.watch = func() (*fsnotify.Watcher, error) { return nil, errors.New("no watches are left") }
	n.run(t)
	info := n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0")
	first := n.start(t, "a.sock", info)
	c.TickOnce() // Without inotify the listing finds it.
	n.want(t, "use a.csi a.sock")
	first.accepted(t)
	first.stop()
	second := n.start(t, "a.sock", info)
	c.TickOnce()
	n.want(t, "drop a.csi a.sock")
	n.want(t, "close a.csi a.sock")
	n.want(t, "use a.csi a.sock")
	second.accepted(t)
	if n.log.Count("can't be watched", "no watches are left") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}
}

// TestConnectionIsNoReason: a plugin whose process has ended stays registered while its file is there, and while the registry can't
// be listed.
func TestConnectionIsNoReason(t *testing.T) {
	c := clocktest.New()
	n := newNode(t, c)
	n.run(t)
	p := n.start(t, "a.sock", n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0"))
	n.want(t, "use a.csi a.sock")
	p.accepted(t)
	p.die()
	c.TickOnce()
	if got := statusOf(n, "a.sock"); got.State != Serving || len(n.kind.events) > 0 {
		t.Errorf("the status is %+v", got)
	}
	// Nothing can be verified in a directory that a link replaces.
	must(t, os.Rename(n.root, n.root+".away"))
	must(t, os.Symlink(n.root, n.root))
	c.TickOnce()
	await(t, "the log of the failure", func() bool { return n.log.Count("not all plugins can be found") == 1 })
	c.TickOnce()
	must(t, os.Remove(n.root))
	must(t, os.Rename(n.root+".away", n.root))
	c.TickOnce()
	await(t, "the log of the recovery", func() bool { return n.log.Count("all plugins can be found again") == 1 })
	if len(n.kind.events) > 0 {
		t.Errorf("event %q", <-n.kind.events)
	}
	must(t, os.Remove(filepath.Join(n.root, "a.sock")))
	n.want(t, "drop a.csi a.sock")
	n.want(t, "close a.csi a.sock")
}

// TestRegistryRemoved: a registry that is removed has no plugins any more; it is made again, and watched.
func TestRegistryRemoved(t *testing.T) {
	c := clocktest.New()
	n := newNode(t, c)
	n.run(t)
	p := n.start(t, "a.sock", n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0"))
	n.want(t, "use a.csi a.sock")
	p.accepted(t)
	must(t, os.RemoveAll(n.root))
	n.want(t, "drop a.csi a.sock")
	n.want(t, "close a.csi a.sock")
	await(t, "the new registry", func() bool { _, err := os.Stat(n.root); return err == nil })
	c.TickOnce()
	n.start(t, "sub/b.sock", n.info(t, CSIPlugin, "b.csi", "b.sock", "1.0.0")).accepted(t)
	n.want(t, "use b.csi b.sock")
}

// TestOneDriver: a second CSI driver of a name is refused, with the reason, unless its version is higher. It is registered once the
// first one is gone.
func TestOneDriver(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(1000, 0))
	n := newNode(t, c)
	n.run(t)
	first := n.start(t, "1.sock", n.info(t, CSIPlugin, "a.csi", "1.sock", "1.1.0"))
	n.want(t, "use a.csi 1.sock")
	first.accepted(t)
	second := n.start(t, "2.sock", n.info(t, CSIPlugin, "a.csi", "2.sock", "1.1.0"))
	second.refused(t, "in use by version 1.1.0")
	if pause := <-c.Set; pause < 500*time.Millisecond || pause > time.Second {
		t.Errorf("the first pause is %v", pause)
	}
	// Without a step of the clock: the end of the first one wakes the second one.
	first.stop()
	n.want(t, "drop a.csi 1.sock")
	n.want(t, "use a.csi 2.sock", "close a.csi 1.sock")
	second.accepted(t)
	// A higher version takes its place. When that goes, the lower one serves again, without a gap.
	third := n.start(t, "3.sock", n.info(t, CSIPlugin, "a.csi", "3.sock", "1.2.0"))
	n.want(t, "use a.csi 3.sock")
	third.accepted(t)
	third.stop()
	n.want(t, "use a.csi 2.sock")
	n.want(t, "close a.csi 3.sock")
	// One that goes while another serves drops nothing.
	fourth := n.start(t, "4.sock", n.info(t, CSIPlugin, "a.csi", "4.sock", "1.2.0"))
	n.want(t, "use a.csi 4.sock")
	fourth.accepted(t)
	second.stop()
	n.want(t, "close a.csi 2.sock")
	if got := statusOf(n, "4.sock"); got.State != Serving {
		t.Errorf("the status is %+v", got)
	}
}

// statusOf returns the status of a socket.
func statusOf(n *node, rel string) Status {
	for _, s := range n.Statuses() {
		if s.Socket == filepath.Join(n.root, rel) {
			return s
		}
	}
	return Status{}
}

// TestRollingUpdate: of several live sockets of a DRA driver the newest serves, in whichever order they are found, and the next one
// when it goes.
func TestRollingUpdate(t *testing.T) {
	n := newNode(t, nil)
	older := n.start(t, "dra-2.sock", n.info(t, DRAPlugin, "gpu.example.com", "2.sock", "v1.DRAPlugin"))
	age(t, filepath.Join(n.root, "dra-2.sock"), time.Minute)
	n.run(t)
	n.want(t, "use gpu.example.com 2.sock")
	older.accepted(t)
	newer := n.start(t, "dra-3.sock", n.info(t, DRAPlugin, "gpu.example.com", "3.sock", "v1.DRAPlugin"))
	n.want(t, "use gpu.example.com 3.sock")
	newer.accepted(t)
	// The oldest is found last, as after a restart of podexecd.
	must(t, os.MkdirAll(filepath.Join(n.dir, "aside"), 0o750))
	aside := filepath.Join(n.dir, "aside", "dra-1.sock")
	oldest := n.start(t, "../aside/dra-1.sock", n.info(t, DRAPlugin, "gpu.example.com", "1.sock", "v1.DRAPlugin"))
	age(t, aside, time.Hour)
	must(t, os.Rename(aside, filepath.Join(n.root, "dra-1.sock")))
	oldest.accepted(t)
	if got := statusOf(n, "dra-1.sock"); got.State != StandingBy {
		t.Errorf("the status is %+v", got)
	}
	newer.stop()
	n.want(t, "use gpu.example.com 2.sock")
	n.want(t, "close gpu.example.com 3.sock")
	older.stop()
	n.want(t, "use gpu.example.com 1.sock")
	n.want(t, "close gpu.example.com 2.sock")
	must(t, os.Remove(filepath.Join(n.root, "dra-1.sock")))
	n.want(t, "drop gpu.example.com 1.sock")
	n.want(t, "close gpu.example.com 1.sock")
}

// age makes a socket that much older.
func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	must(t, os.Chtimes(path, at, at))
}

// TestRetry: a plugin that fails is told why, and tried again with growing pauses. The log has one line for each reason.
func TestRetry(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(1000, 0))
	n := newNode(t, c)
	n.kind.refuse = map[string]string{"a.csi": "the driver isn't ready"}
	n.run(t)
	p := n.start(t, "a.sock", n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0"))
	last := time.Duration(0)
	for range 12 {
		p.refused(t, "the driver isn't ready")
		pause := <-c.Set
		if pause < last && last < 90*time.Second || pause > 150*time.Second {
			t.Errorf("a pause of %v after one of %v", pause, last)
		}
		last = pause
		c.Step(pause)
	}
	if last < 2*time.Minute {
		t.Errorf("the last pause is %v; want two minutes", last)
	}
	n.kind.set(func() { n.kind.refuse = nil })
	for {
		s := <-p.told // The attempt that was under way may be refused too.
		if s.GetPluginRegistered() {
			break
		}
		c.Step(<-c.Set)
	}
	n.want(t, "use a.csi a.sock")
	await(t, "the log of the registration", func() bool { return n.log.Count("plugin is registered") == 1 })
	if n.log.Count("can't be registered", "the driver isn't ready") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}
}

// TestTellAgain: a plugin that doesn't take the status stays registered, and is told again.
func TestTellAgain(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(1000, 0))
	n := newNode(t, c)
	n.run(t)
	info := n.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0")
	must(t, os.Mkdir(filepath.Join(n.dir, "aside"), 0o750))
	p := n.start(t, "../aside/a.sock", info)
	p.mu.Lock()
	p.fail = errors.New("busy")
	p.mu.Unlock()
	must(t, os.Rename(filepath.Join(n.dir, "aside", "a.sock"), filepath.Join(n.root, "a.sock")))
	n.want(t, "use a.csi a.sock")
	pause := <-c.Set
	if got := statusOf(n, "a.sock"); got.State != Serving || !strings.Contains(got.Error, "busy") {
		t.Errorf("the status is %+v", got)
	}
	p.mu.Lock()
	p.fail = nil
	p.mu.Unlock()
	c.Step(pause)
	p.accepted(t)
	if len(n.kind.events) > 0 {
		t.Errorf("event %q", <-n.kind.events)
	}
}

// TestResolvedDir: the endpoint may be spelled without the links that lead to the kubelet's directory.
func TestResolvedDir(t *testing.T) {
	direct := newNode(t, nil)
	linked := filepath.Join(direct.dir, "link")
	must(t, os.Symlink(direct.dir, linked))
	n := &node{dir: linked, kind: direct.kind}
	n.Manager = New(Config{Dir: linked, Kinds: direct.kinds, Log: direct.Manager.log})
	n.run(t)
	n.start(t, "a.sock", direct.info(t, CSIPlugin, "a.csi", "a.sock", "1.0.0")).accepted(t)
	n.start(t, "b.sock", n.info(t, CSIPlugin, "b.csi", "b.sock", "1.0.0")).accepted(t)
}

// umask is that of the sockets of tests.
func init() { unix.Umask(0o077) }
