package nfs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}

func pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u1"}}
}

// TestMountArguments: mount(8) gets what the kubelet gives it.
func TestMountArguments(t *testing.T) {
	inline := func(server, path string, readOnly bool) (storage.Volume, error) {
		return Inline(pod(), &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
			NFS: &v1.NFSVolumeSource{Server: server, Path: path, ReadOnly: readOnly},
		}})
	}
	persistent := func(readOnly bool, annotation string, options ...string) (storage.Volume, error) {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		// The source's own readOnly doesn't count, as with the kubelet.
		pv.Spec.NFS = &v1.NFSVolumeSource{Server: "s", Path: "/p", ReadOnly: true}
		pv.Spec.MountOptions = options
		if annotation != "" {
			pv.Annotations = map[string]string{v1.MountOptionAnnotation: annotation}
		}
		return Persistent(pod(), &v1.Volume{VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: readOnly},
		}}, pv)
	}
	type result struct {
		v   storage.Volume
		err error
	}
	of := func(v storage.Volume, err error) result { return result{v, err} }
	for name, tc := range map[string]struct {
		got  result
		name string
		want args
		ro   bool
	}{
		"a pod's share":       {of(inline("server", "/share", false)), "data", args{Source: "server:/share"}, false},
		"read-only":           {of(inline("server", "/share", true)), "data", args{"server:/share", []string{"ro"}}, true},
		"IPv6":                {of(inline("fd00::1", "/", false)), "data", args{Source: "[fd00::1]:/"}, false},
		"a PersistentVolume":  {of(persistent(false, "", "vers=4.1", "hard", "hard")), "pv", args{"s:/p", []string{"hard", "vers=4.1"}}, false},
		"a read-only claim":   {of(persistent(true, "", "hard")), "pv", args{"s:/p", []string{"hard", "ro"}}, true},
		"the old annotation":  {of(persistent(false, "soft,intr", "hard")), "pv", args{"s:/p", []string{"intr", "soft"}}, false},
		"in the background":   {of(persistent(false, "", "soft,bg")), "", args{}, false},
		"its option":          {of(inline("-oexec", "/share", false)), "", args{}, false},
		"two servers":         {of(inline("a,b", "/share", false)), "", args{}, false},
		"a path in the name":  {of(inline("s:/other", "/share", false)), "", args{}, false},
		"no server":           {of(inline("", "/share", false)), "", args{}, false},
		"a relative path":     {of(inline("server", "share", false)), "", args{}, false},
		"a path of two lines": {of(inline("server", "/sh\nare", false)), "", args{}, false},
	} {
		if tc.name == "" {
			if tc.got.err == nil {
				t.Errorf("%s is accepted: %+v", name, tc.got.v)
			}
			continue
		}
		v := tc.got.v
		var a args
		if err := errors.Join(tc.got.err, json.Unmarshal([]byte(v.PublishArgs), &a)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if v.Name != tc.name || v.Plugin != PluginName || v.ReadOnly != tc.ro || v.Stages || v.Attaches || a.Source != tc.want.Source ||
			!slices.Equal(a.Options, tc.want.Options) {
			t.Errorf("%s: %+v", name, v)
		}
		if got := New(nil).VolumeName(v.Key); got != tc.want.Source {
			t.Errorf("%s: the helpers of %q are counted", name, got)
		}
	}
}

// bench is a Backend whose mount(8) calls a mount.nfs of the test.
type bench struct {
	*Backend
	volume storage.Publishing
}

// newBench returns a bench. script is the mount.nfs, a shell script.
func newBench(t *testing.T, script string) *bench {
	t.Helper()
	roottest.Need(t, "mounting")
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must(t, os.Mkdir(bin, 0o755))
	// mount(8) finds mount.nfs in /sbin only, so it is replaced itself.
	must(t, os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	helpers := foreign.New(foreign.Config{Grace: 50 * time.Millisecond})
	t.Cleanup(helpers.Close)
	v, err := Inline(pod(), &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/share"}}})
	must(t, err)
	pods := filepath.Join(dir, "pods")
	must(t, os.MkdirAll(filepath.Join(pods, "u1"), 0o750))
	b := &bench{New(helpers), storage.Publishing{
		Staging: storage.Staging{Key: v.Key}, UID: "u1", Plugin: v.Plugin, Name: v.Name, Args: v.PublishArgs,
		Dir: filepath.Join(pods, "u1", "volumes", "kubernetes.io~nfs", "data"),
	}}
	t.Cleanup(func() {
		if err := b.Unpublish(context.Background(), b.volume); err != nil && !errors.Is(err, foreign.ErrClosed) {
			t.Error(err)
		}
	})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPublish: a share is mounted at the volume's directory itself, once, and unmounted. mount(8) gets the kubelet's
// arguments.
func TestPublish(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	b := newBench(t, `echo "$@" >> `+log+`
for target; do :; done
exec /bin/mount -t tmpfs share "$target"
`)
	for range 2 {
		must(t, b.Publish(t.Context(), b.volume))
	}
	if got := b.MountPoint(b.volume.Dir); got != b.volume.Dir {
		t.Errorf("the mount point is %s", got)
	}
	data, err := os.ReadFile(log)
	must(t, err)
	if got, want := string(data), "-t nfs server:/share "+b.volume.Dir+"\n"; got != want {
		t.Errorf("mount %q, want %q", got, want)
	}
	if !isMounted(t, b.volume.Dir) {
		t.Fatal("nothing is mounted")
	}
	stats, err := b.Stats(t.Context(), b.volume)
	if err != nil || stats.Capacity == 0 || stats.Available > stats.Capacity {
		t.Errorf("%+v, %v", stats, err)
	}
	for range 2 {
		must(t, b.Unpublish(t.Context(), b.volume))
	}
	if isMounted(t, b.volume.Dir) {
		t.Error("it is still mounted")
	}
}

func isMounted(t *testing.T, path string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	return strings.Contains(string(table), " "+path+" ")
}

// TestMountFails: the error of mount(8) is the volume's, and nothing is mounted.
func TestMountFails(t *testing.T) {
	b := newBench(t, "echo mount.nfs: access denied by server >&2; exit 32\n")
	err := b.Publish(t.Context(), b.volume)
	if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "access denied by server") || !strings.Contains(err.Error(), "exit status 32") {
		t.Fatalf("error %v (outcome %d)", err, storage.OutcomeOf(err))
	}
}

// TestServerIsGone: a mount whose server has died is made again.
func TestServerIsGone(t *testing.T) {
	b := newBench(t, `for target; do :; done
exec /bin/mount -t tmpfs share "$target"
`)
	must(t, os.MkdirAll(b.volume.Dir, 0o750))
	fusetest.Hang(t, b.volume.Dir).Die()
	must(t, b.Publish(t.Context(), b.volume))
	if _, err := os.ReadDir(b.volume.Dir); err != nil {
		t.Fatal(err)
	}
}

// TestMountHangs: a mount that doesn't end returns with its context, and what was started for it ends.
func TestMountHangs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	// The script and its sleep have the FIFO open until they end.
	b := newBench(t, "exec 3> "+fifo+"; echo started >&3; while :; do sleep 1000; done\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx, b.volume) }()
	started, err := os.Open(fifo)
	must(t, err)
	defer started.Close()
	lines := bufio.NewReader(started)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	// It may be mounted, so it is undone; but no process can mount it any more, so that needn't wait.
	if err := <-done; storage.OutcomeOf(err) != storage.Uncertain || !errors.Is(err, foreign.ErrNoAnswer) || !strings.Contains(err.Error(), "server:/share") {
		t.Errorf("error %v", err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestEarlierMount: while the process of an earlier mount may still mount the share, no other one answers for it, and the volume isn't
// taken for unmounted.
func TestEarlierMount(t *testing.T) {
	server, log := fusetest.Hang(t, t.TempDir()), filepath.Join(t.TempDir(), "log")
	b := newBench(t, `echo begun >> `+log+`
ls `+server.Dir+`/x
for target; do :; done
exec /bin/mount -t tmpfs share "$target"
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Publish(ctx, b.volume) }()
	select {
	case <-server.Asked():
	case err := <-done:
		t.Fatal(err)
	}
	cancel()
	if err := <-done; storage.OutcomeOf(err) != storage.Unanswered {
		t.Fatalf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	for name, tc := range map[string]struct {
		do   func(context.Context, storage.Publishing) error
		want storage.Outcome
	}{"publish": {b.Publish, storage.Unrepeatable}, "unpublish": {b.Unpublish, storage.Uncertain}} {
		err := tc.do(t.Context(), b.volume)
		if storage.OutcomeOf(err) != tc.want || !strings.Contains(err.Error(), b.volume.Dir) {
			t.Errorf("%s: %v (outcome %d)", name, err, storage.OutcomeOf(err))
		}
	}
	server.Die()
	for storage.OutcomeOf(b.Publish(t.Context(), b.volume)) == storage.Unrepeatable {
		runtime.Gosched() // Its process ends now.
	}
	if data, err := os.ReadFile(log); string(data) != "begun\nbegun\n" || !isMounted(t, b.volume.Dir) {
		t.Errorf("mounts %q, %v; want one before the server's end, and one after it", data, err)
	}
}

// TestHungServer: a server that doesn't answer delays no other share. Its mount is unmounted by force.
func TestHungServer(t *testing.T) {
	b := newBench(t, "exit 1\n")
	must(t, os.MkdirAll(b.volume.Dir, 0o750))
	server := fusetest.Hang(t, b.volume.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Stats(ctx, b.volume)
		done <- err
	}()
	<-server.Asked()
	cancel()
	if err := <-done; !errors.Is(err, foreign.ErrNoAnswer) {
		t.Fatalf("error %v", err)
	}
	other := b.volume
	other.UID, other.Handle = "u2", "u2/data@other:/share"
	other.Dir = strings.Replace(other.Dir, "u1", "u2", 1)
	must(t, os.MkdirAll(filepath.Dir(filepath.Dir(filepath.Dir(other.Dir))), 0o750))
	if err := b.Publish(t.Context(), other); err == nil || errors.Is(err, foreign.ErrNoAnswer) {
		t.Errorf("another share: %v", err)
	}
	server.Die()
}

// TestLinkInTheWay: a link in the volume's path is not followed, and nothing is mounted.
func TestLinkInTheWay(t *testing.T) {
	for _, link := range []string{"volumes", "volumes/kubernetes.io~nfs", "volumes/kubernetes.io~nfs/data"} {
		b := newBench(t, `for target; do :; done
exec /bin/mount -t tmpfs share "$target"
`)
		outside := t.TempDir()
		pod := filepath.Dir(filepath.Dir(filepath.Dir(b.volume.Dir)))
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(pod, link)), 0o750))
		must(t, os.Symlink(outside, filepath.Join(pod, link)))
		err := b.Publish(t.Context(), b.volume)
		if out := storage.OutcomeOf(err); out != storage.NotSent && out != storage.Final {
			t.Errorf("%s: error %v (outcome %d)", link, err, out)
		}
		if isMounted(t, outside) {
			t.Errorf("%s: it is mounted at the link's target", link)
		}
	}
}
