package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// keeping is a rig with running pods, and a consumer that has them, to check that podconfigd's restarts affect
// neither.
type keeping struct {
	*rig
	metrics string
	health  healthv1.HealthClient
	// held are the consumer's pods, by name.
	held   map[string]heldPod
	cursor *podconfigv1.Cursor
	// containers are the container IDs, by the pods' names.
	containerIDs map[string]string
	markers      int
}

type heldPod struct {
	known      *podconfigv1.KnownPod
	stale      bool
	configSeen string
}

// newKeeping starts a rig, calls prepare with podconfigd's directory, and then runs the pods.
func newKeeping(t *testing.T, node *devnode.Node, prepare func(dir string), pods ...string) *keeping {
	t.Helper()
	k := &keeping{rig: newRig(t, node), metrics: freeAddress(t), containerIDs: map[string]string{}}
	check(t, devnode.WaitServing(t.Context(), k.Podconfigd, "unix://"+k.ConfigSocket()))
	check(t, k.Podconfigd.Stop())
	k.Podconfigd.Args = append(k.Podconfigd.Args, "--metrics-address", k.metrics)
	k.health = healthv1.NewHealthClient(dial(t, "unix://"+k.ConfigSocket()))
	if prepare != nil {
		prepare(k.Path("podconfigd"))
	}
	check(t, k.Podconfigd.Start())
	for _, name := range pods {
		k.write(name+".yaml", manifest(name, "main: print, v1"))
	}
	for _, name := range pods {
		k.containerIDs[name] = k.containers(k.awaitRunning(name))[0].GetId()
	}
	k.snapshot()
	return k
}

func (k *keeping) store() string { return k.Path("podconfigd", "podconfigd.db") }

// snapshot stores podconfigd's present pods in the consumer.
func (k *keeping) snapshot() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	watch, err := k.Config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	check(k.t, err)
	k.held, k.cursor = map[string]heldPod{}, nil
	for k.cursor == nil {
		msg, err := watch.Recv()
		check(k.t, err)
		for _, p := range msg.GetUpdate().GetPods() {
			object := &v1.Pod{}
			check(k.t, object.Unmarshal(p.GetProtobuf()))
			k.held[strings.TrimSuffix(object.Name, "-"+k.Name)] = heldPod{
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

// source returns the source from ListSources.
func (k *keeping) source() (*podconfigv1.Source, error) {
	resp, err := k.Config.ListSources(k.t.Context(), &podconfigv1.ListSourcesRequest{})
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
		// ListSources may show a merge before it is published.
		served, err := listReferences(k.t.Context(), k.Config)
		if err == nil && (!source.GetReady() || served.GetRevision() < source.GetReadyRevision()) {
			err = fmt.Errorf("at revision %d it is %v", served.GetRevision(), source)
		}
		return err
	})
}

// resumes checks that a resuming consumer receives exactly the given ops. podexecd handles ops in order, so it
// has handled these when a pod that is created afterwards starts.
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
		k.t.Errorf("after %s a consumer that resumes receives %q; want %q", after, got, want)
	}
	k.awaitRunning(marker)
}

// unharmed checks that the containers of these pods are still the same.
func (k *keeping) unharmed(after string, pods ...string) {
	k.t.Helper()
	for _, name := range pods {
		now := k.containers(k.held[name].known.GetUid())
		if len(now) != 1 || now[0].GetId() != k.containerIDs[name] || now[0].GetMetadata().GetAttempt() != 0 {
			k.t.Errorf("after %s the container of %s was %s, and is now %v", after, name, k.containerIDs[name], now)
		}
	}
}

// same checks that podconfigd serves these pods unchanged, and whether the instance ID is the same. The
// consumer then has them.
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
		k.t.Errorf("after %s the cursor is %v, and was %v; want the same instance: %v", after, now, cursor, sameInstance)
	}
}

// awaitStore waits until metric, health, heartbeat and podctl report the store as durable, or as temporary.
func (k *keeping) awaitStore(state podconfigv1.StoreState) {
	k.t.Helper()
	durable := state == podconfigv1.StoreState_STORE_STATE_DURABLE
	k.eventually("the metric reports the store: "+state.String(), func() error {
		value, err := metricOn(k.metrics, "podconfigd_store_durable")
		if err == nil && (value == 1) != durable {
			err = fmt.Errorf("it is %v", value)
		}
		return err
	})
	health := healthv1.HealthCheckResponse_NOT_SERVING
	if durable {
		health = healthv1.HealthCheckResponse_SERVING
	}
	k.awaitHealth("podconfigd.store", health)
	// podconfigd serves without its store too.
	k.awaitHealth("", healthv1.HealthCheckResponse_SERVING)
	podctl := k.startPodctl("watch", "--heartbeats", "--heartbeat-interval", "1s")
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	watch, err := k.Config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: durationpb.New(1)})
	check(k.t, err)
	var beat *podconfigv1.Heartbeat
	for beat == nil {
		msg, err := watch.Recv()
		check(k.t, err)
		beat = msg.GetHeartbeat()
	}
	if beat.GetStoreState() != state {
		k.t.Errorf("the heartbeat reports %s; want %s", beat.GetStoreState(), state)
	}
	if text := podctl("HEARTBEAT"); strings.Contains(text, "store: temporary") == durable {
		k.t.Errorf("podctl reports a durable store (%v):\n%s", durable, text)
	}
}

// awaitHealth waits for the health of a part of podconfigd. The empty name is the whole podconfigd.
func (k *keeping) awaitHealth(part string, want healthv1.HealthCheckResponse_ServingStatus) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	watch, err := k.health.Watch(ctx, &healthv1.HealthCheckRequest{Service: part})
	check(k.t, err)
	status := healthv1.HealthCheckResponse_UNKNOWN
	for status != want {
		msg, err := watch.Recv()
		if err != nil {
			k.t.Fatalf("the health of %q is %s, then: %v; want %s", part, status, err, want)
		}
		status = msg.GetStatus()
	}
}

// startPodctl runs podctl. The returned function waits until that has printed the given text or has ended, and
// returns its output.
func (k *keeping) startPodctl(args ...string) func(until string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	k.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"),
		append([]string{"--podconfig-endpoint", "unix://" + k.ConfigSocket(), "--podexec-endpoint", "unix://" + k.ExecSocket()}, args...)...)
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
