package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// keeping is a rig with pods that run and a consumer that holds them, to see what podconfigd's restarts do to both.
type keeping struct {
	*rig
	metrics string
	// held is what the consumer has, by the pods' names.
	held   map[string]heldPod
	cursor *podconfigv1.Cursor
	// containers are the ids, by the pods' names.
	containerIDs map[string]string
	markers      int
}

type heldPod struct {
	known      *podconfigv1.KnownPod
	stale      bool
	configSeen string
}

// newKeeping starts a rig, lets prepare have its way with podconfigd's directory, and then runs the pods.
func newKeeping(t *testing.T, node *devnode.Node, prepare func(dir string), pods ...string) *keeping {
	t.Helper()
	k := &keeping{rig: newRig(t, node), metrics: freeAddress(t), containerIDs: map[string]string{}}
	check(t, devnode.WaitServing(t.Context(), k.podconfigd, "unix://"+k.configSocket()))
	check(t, k.podconfigd.Stop())
	k.podconfigd.Args = append(k.podconfigd.Args, "--metrics-address", k.metrics)
	if prepare != nil {
		prepare(k.path("podconfigd"))
	}
	check(t, k.podconfigd.Start())
	for _, name := range pods {
		k.write(name+".yaml", manifest(name, "main: print, v1"))
	}
	for _, name := range pods {
		k.containerIDs[name] = k.containers(k.awaitRunning(name))[0].GetId()
	}
	k.snapshot()
	return k
}

func (k *keeping) store() string { return k.path("podconfigd", "podconfigd.db") }

// snapshot has the consumer take what podconfigd serves now.
func (k *keeping) snapshot() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	watch, err := k.config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	check(k.t, err)
	k.held, k.cursor = map[string]heldPod{}, nil
	for k.cursor == nil {
		msg, err := watch.Recv()
		check(k.t, err)
		for _, p := range msg.GetUpdate().GetPods() {
			object := &v1.Pod{}
			check(k.t, object.Unmarshal(p.GetProtobuf()))
			k.held[strings.TrimSuffix(object.Name, "-"+k.name)] = heldPod{
				stale: p.GetStale(), configSeen: object.Annotations["kubernetes.io/config.seen"],
				known: &podconfigv1.KnownPod{
					Uid: p.GetRef().GetUid(), Source: p.GetSource(), SpecDigest: p.GetSpecDigest(),
					StatusDigest: p.GetStatusDigest(), Namespace: object.Namespace, Name: object.Name,
				},
			}
		}
		if msg.GetSynced() != nil {
			k.cursor = msg.GetCursor()
		}
	}
}

// source is what ListSources has of the source.
func (k *keeping) source() (*podconfigv1.Source, error) {
	resp, err := k.config.ListSources(k.t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return nil, err
	}
	return resp.GetSources()[0], nil
}

func (k *keeping) awaitReady() {
	k.t.Helper()
	k.eventually("the source is ready", func() error {
		source, err := k.source()
		if err != nil {
			return err
		}
		// What is merged shows here before it is published.
		served, err := listReferences(k.t.Context(), k.config)
		if err == nil && (!source.GetReady() || served.GetRevision() < source.GetReadyRevision()) {
			err = fmt.Errorf("at revision %d it is %v", served.GetRevision(), source)
		}
		return err
	})
}

// resumes checks that a consumer that goes on from where it was is told the given ops and no others. A pod that is made afterwards
// goes all the way to the runtime: so whatever podexecd would have made of the ops, it has.
func (k *keeping) resumes(after string, want ...string) {
	k.t.Helper()
	k.awaitReady()
	req := &podconfigv1.WatchPodUpdatesRequest{ResumeAfter: k.cursor, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE}
	for _, p := range k.held {
		req.KnownPods = append(req.KnownPods, p.known)
	}
	stream := k.watch(req)
	defer stream.cancel()
	k.markers++
	marker := fmt.Sprint("marker", k.markers)
	k.write(marker+".yaml", manifest(marker, "main: sleep"))
	var got []string
	for o := stream.next(); o.text != "ADD "+marker; o = stream.next() {
		if o.text != "SYNCED" {
			got = append(got, o.text)
		}
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("after %s a consumer that resumes is told %q; want %q", after, got, want)
	}
	k.awaitRunning(marker)
}

// unharmed checks that the containers of these pods are those that were there before.
func (k *keeping) unharmed(after string, pods ...string) {
	k.t.Helper()
	for _, name := range pods {
		now := k.containers(k.held[name].known.GetUid())
		if len(now) != 1 || now[0].GetId() != k.containerIDs[name] || now[0].GetMetadata().GetAttempt() != 0 {
			k.t.Errorf("after %s the container of %s was %s, and is now %v", after, name, k.containerIDs[name], now)
		}
	}
}

// same checks that podconfigd serves these pods as it did, and whether under the same instance id. The consumer then has what is served.
func (k *keeping) same(after string, sameInstance bool, pods ...string) {
	k.t.Helper()
	held, cursor := k.held, k.cursor
	k.snapshot()
	for _, name := range pods {
		was, is := held[name], k.held[name]
		if is.known == nil || is.known.GetUid() != was.known.GetUid() || is.known.GetSpecDigest() != was.known.GetSpecDigest() || is.stale {
			k.t.Errorf("after %s pod %s was %v, and is now %+v", after, name, was.known, is)
		}
		if sameInstance && is.configSeen != was.configSeen {
			k.t.Errorf("after %s pod %s was first seen at %s, and is now at %s", after, name, was.configSeen, is.configSeen)
		}
	}
	now := k.cursor
	if (now.GetInstanceId() == cursor.GetInstanceId()) != sameInstance || sameInstance && now.GetRevision() < cursor.GetRevision() {
		k.t.Errorf("after %s the place is %v, and was %v; want the same instance: %v", after, now, cursor, sameInstance)
	}
}

// awaitStore waits until metric, heartbeat and podctl say that what is served is durable, or that it isn't.
func (k *keeping) awaitStore(state podconfigv1.StoreState) {
	k.t.Helper()
	durable := state == podconfigv1.StoreState_STORE_STATE_DURABLE
	k.eventually("the metric tells of the store: "+state.String(), func() error {
		value, err := metricOn(k.metrics, "podconfigd_store_durable")
		if err == nil && (value == 1) != durable {
			err = fmt.Errorf("it is %v", value)
		}
		return err
	})
	podctl := k.startPodctl("watch", "--heartbeats", "--heartbeat-interval", "1s")
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	watch, err := k.config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: durationpb.New(1)})
	check(k.t, err)
	var beat *podconfigv1.Heartbeat
	for beat == nil {
		msg, err := watch.Recv()
		check(k.t, err)
		beat = msg.GetHeartbeat()
	}
	if beat.GetStoreState() != state {
		k.t.Errorf("the heartbeat says %s; want %s", beat.GetStoreState(), state)
	}
	if text := podctl("HEARTBEAT"); strings.Contains(text, "store: temporary") == durable {
		k.t.Errorf("podctl tells of a store that is durable (%v):\n%s", durable, text)
	}
}

// startPodctl runs podctl. The returned function waits until that has printed the given text or has ended, and returns all that it
// printed.
func (k *keeping) startPodctl(args ...string) func(until string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	k.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "podctl"),
		append([]string{"--podconfig-endpoint", "unix://" + k.configSocket(), "--podexec-endpoint", "unix://" + k.execSocket()}, args...)...)
	out, err := cmd.StdoutPipe()
	check(k.t, err)
	check(k.t, cmd.Start())
	return func(until string) string {
		var text strings.Builder
		for lines := bufio.NewScanner(out); !strings.Contains(text.String(), until) && lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
		}
		cancel()
		_ = cmd.Wait()
		return text.String()
	}
}

// However podconfigd ends and starts again: no container is restarted, and a consumer that resumes is told of the source's
// becoming ready alone; instance id, UIDs and the times when pods were first seen are as before (G5, G6).
func TestG6RestartChangesNothing(t *testing.T) {
	t.Parallel()
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		k := newKeeping(t, node, nil, "web", "side")
		for _, end := range []struct {
			name string
			end  func() error
		}{{"SIGTERM", k.podconfigd.Stop}, {"SIGKILL", k.podconfigd.Kill}, {"another SIGKILL", k.podconfigd.Kill}} {
			check(t, end.end())
			check(t, k.podconfigd.Start())
			k.resumes(end.name, "ADD")
			k.unharmed(end.name, "web", "side")
			k.same(end.name, true, "web", "side")
		}
	})
}

// Manifests that change while podconfigd is down: exactly what they change is done once it is back. What was edited into nonsense
// stays as it was (G2, G5, G6).
func TestG6ChangesWhileDownAreSeen(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*devnode.Process) error{"SIGTERM": (*devnode.Process).Stop, "SIGKILL": (*devnode.Process).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeping(t, startNode(t, devnode.Sim), nil, "stays", "edited", "broken", "removed")
			check(t, end(k.podconfigd))
			k.write("edited.yaml", manifest("edited", "main: print, v2"))
			k.write("broken.yaml", "kind: Pod\n  spec")
			k.remove("removed.yaml")
			k.write("added.yaml", manifest("added", "main: sleep"))
			check(t, k.podconfigd.Start())
			k.resumes("the changes", "REMOVE edited removed", "ADD added edited")
			k.unharmed("the changes", "stays", "broken")
			k.eventually("what was removed, or replaced, is gone", func() error {
				for _, name := range []string{"removed", "edited"} {
					if left := k.containers(k.held[name].known.GetUid()); len(left) > 0 {
						return fmt.Errorf("%s has the container %v", name, left[0])
					}
				}
				return nil
			})
			k.awaitRunning("edited")
			k.awaitRunning("added")
			findings := k.findings(filepath.Join(k.manifests, "broken.yaml"))
			if len(findings) != 1 || len(findings[0].GetKeptPods()) != 1 ||
				findings[0].GetKeptPods()[0].GetUid() != k.held["broken"].known.GetUid() {
				t.Errorf("findings for the broken manifest: %v; want one that names the pod that is kept", findings)
			}
			k.same("the changes", true, "stays", "broken")
		})
	}
}

// A podconfigd that starts without its manifest directory knows the pods from its store: they run on and are shown as stale, and
// nothing is removed, until the directory is back (G9).
func TestG9MissingDirectoryRemovesNothing(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, startNode(t, devnode.Sim), nil, "web", "side")
	check(t, k.podconfigd.Kill())
	away := k.manifests + ".away"
	check(t, os.Rename(k.manifests, away))
	check(t, k.podconfigd.Start())
	k.eventually("the source can't be read, and podexecd is there", func() error {
		source, err := k.source()
		if err != nil {
			return err
		}
		if source.GetReady() || !strings.Contains(source.GetLastError(), "no such file") || source.GetPodCount() != 2 {
			return fmt.Errorf("the source is %v", source)
		}
		resp, err := k.config.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
		if err != nil {
			return err
		}
		for _, c := range resp.GetConsumers() {
			if strings.HasPrefix(c.GetName(), "podexecd") && c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_LIVE {
				return nil
			}
		}
		return fmt.Errorf("consumers %v", resp.GetConsumers())
	})
	before := k.held
	cursor := k.cursor
	stream := k.watch(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor})
	k.snapshot()
	for _, name := range []string{"web", "side"} {
		if now := k.held[name]; !now.stale || now.known.GetUid() != before[name].known.GetUid() {
			t.Errorf("pod %s is served as %+v; want it stale", name, now)
		}
	}
	if text := k.startPodctl("pods", "-o", "yaml")("the end"); strings.Count(text, "stale: true") != 2 {
		t.Errorf("podctl doesn't show two stale pods:\n%s", text)
	}
	k.unharmed("the loss of the directory", "web", "side")
	check(t, os.Rename(away, k.manifests))
	for _, want := range []string{"SYNCED", "ADD"} {
		if o := stream.next(); o.text != want {
			t.Errorf("a consumer that resumed is told %q; want %q", o.text, want)
		}
	}
	k.resumes("the directory's return", "ADD")
	k.unharmed("the directory's return", "web", "side")
	k.same("the directory's return", true, "web", "side")
}

// A store that can't be understood is set aside, with a loud line; pods are read anew, and nothing happens to those that run.
func TestG6DamagedStoreIsSetAside(t *testing.T) {
	t.Parallel()
	for _, damage := range []struct {
		name, aside string
		do          func(path string) error
	}{
		{"truncated", "damaged", func(path string) error { return os.Truncate(path, 10_000) }},
		{"empty", "damaged", func(path string) error { return os.Truncate(path, 0) }},
		{"garbage", "damaged", func(path string) error {
			noise := make([]byte, 64<<10)
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
			return os.WriteFile(path, noise, 0o600)
		}},
		{"newer version", "version-99", claimVersion99},
	} {
		t.Run(damage.name, func(t *testing.T) {
			t.Parallel()
			k := newKeeping(t, startNode(t, devnode.Sim), nil, "web", "side")
			check(t, k.podconfigd.Kill())
			check(t, damage.do(k.store()))
			check(t, k.podconfigd.Start())
			k.resumes("the damage")
			k.unharmed("the damage", "web", "side")
			k.same("the damage", false, "web", "side")
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_DURABLE)
			check(t, fileContains(k.podconfigd.LogPath, `level=ERROR msg="the store can't be used and was set aside; a new one takes its place`))
			if aside, err := filepath.Glob(k.store() + "." + damage.aside + "-*"); err != nil || len(aside) != 1 {
				t.Errorf("set aside as %s: %v, %v; want one file", damage.aside, aside, err)
			}
			// The new store is as good as any.
			check(t, k.podconfigd.Kill())
			check(t, k.podconfigd.Start())
			k.resumes("a restart with the new store", "ADD")
			k.same("a restart with the new store", true, "web", "side")
		})
	}
}

// claimVersion99 makes the store one that a later version wrote.
func claimVersion99(path string) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bbolt.Tx) error {
		sum := crc32.Checksum([]byte("format99"), crc32.MakeTable(crc32.Castagnoli))
		return tx.Bucket([]byte("head")).Put([]byte("format"), append(binary.BigEndian.AppendUint32(nil, sum), "99"...))
	})
}

// A store that can't be written, from the start or all at once: podconfigd serves on from memory and says so wherever one looks,
// nothing happens to the pods, and once it can be written it is, under the instance id of before (G6).
func TestG6UnwritableStoreIsServedFromMemory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it takes root to fill a disk of one's own; run: sudo go test -run TestG6 ./test/e2e")
	}
	// The disk is one that holds the store and a few pods.
	disk := func(t *testing.T, dir string) {
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
		t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	}
	fill := func(t *testing.T, k *keeping) (mend func()) {
		path := k.path("podconfigd", "filler")
		err := os.WriteFile(path, make([]byte, 4<<20), 0o600)
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("fill the disk: %v; want it full", err)
		}
		return func() { check(t, os.Remove(path)) }
	}
	protect := func(t *testing.T, k *keeping) (mend func()) {
		check(t, setImmutable(k.store(), true))
		mend = func() { check(t, setImmutable(k.store(), false)) }
		t.Cleanup(mend)
		return mend
	}
	remount := func(t *testing.T, k *keeping) (mend func()) {
		dir := k.path("podconfigd")
		check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		return func() { check(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "")) }
	}
	for _, trouble := range []struct {
		name    string
		running bool
		prepare func(*testing.T, string)
		begin   func(*testing.T, *keeping) (mend func())
	}{
		{"full at the start", false, disk, fill},
		{"full while running", true, disk, fill},
		{"read-only at the start", false, nil, protect},
		{"read-only while running", true, nil, protect},
		{"in a read-only directory at the start", false, disk, remount},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			var prepare func(string)
			if trouble.prepare != nil {
				prepare = func(dir string) { trouble.prepare(t, dir) }
			}
			k := newKeeping(t, startNode(t, devnode.Sim), prepare, "web", "side")
			if !trouble.running {
				check(t, k.podconfigd.Kill())
			}
			mend := trouble.begin(t, k)
			// This isn't in the store, nor is there room for it.
			k.write("large.yaml", strings.Replace(manifest("large", "main: sleep"), "metadata:\n",
				"metadata:\n  annotations: {ballast: "+strings.Repeat("x", 200<<10)+"}\n", 1))
			if !trouble.running {
				check(t, k.podconfigd.Start())
			}
			k.awaitRunning("large")
			k.remove("large.yaml")
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_TEMPORARY)
			check(t, fileContains(k.podconfigd.LogPath, `level=ERROR msg="the store can't be used; serving goes on from memory`))
			k.unharmed("the trouble with the store", "web", "side")
			durable, before := k.cursor, k.held
			k.same("the trouble with the store", false, "web", "side")
			mend()
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_DURABLE)
			// What the consumer had before the trouble is what it goes on from.
			k.cursor, k.held = durable, before
			k.same("the mending", true, "web", "side")
			check(t, k.podconfigd.Kill())
			check(t, k.podconfigd.Start())
			k.resumes("a restart with the mended store", "ADD")
			k.unharmed("a restart with the mended store", "web", "side")
			k.same("a restart with the mended store", true, "web", "side")
		})
	}
}

// setImmutable sets or clears the flag that keeps everybody from writing to a file, whoever has it open.
func setImmutable(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("read the flags of %s: %w", path, err)
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	flags &^= immutable
	if on {
		flags |= immutable
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		return fmt.Errorf("set the flags of %s: %w", path, err)
	}
	return nil
}
