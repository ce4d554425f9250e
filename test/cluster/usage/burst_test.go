package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	// burst is the maximum number of pods on a node.
	burst = 110
	// burstPatience is their time limit. Most of it is used by the runtime.
	burstPatience = 10 * time.Minute
)

// A node receives its maximum number of pods at once. It stays ready, reports each pod in a few patches, and
// needs not much longer than a node without an API server for the same pods.
func TestBurst(t *testing.T) {
	machine := newMachine(t, "burst-machine", here.BinDir())
	floor := burstOfManifests(t, machine)
	n := newNode(t, "burst", func(n *node) { n.Machine = machine })
	s := newSpace(t, n)
	node := n.watchHealth(t)
	api := s.burst(t)
	health := node()
	patches := n.statusPatches(t, s.name, api.began)

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tready p50\tp99\tall\tpodexecd CPU\tpodconfigd CPU\t")
	for _, r := range []struct {
		what string
		*burstResult
	}{{"from the API server", api}, {"from manifests", floor}} {
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%.1f s\t%.1f s\t%.1f s\t\n", r.what, percentile(r.ready, 50).Seconds(), percentile(r.ready, 99).Seconds(),
			percentile(r.ready, 100).Seconds(), r.podexecd.Seconds(), r.podconfigd.Seconds())
	}
	rig.Must(t, w.Flush())
	var counts []int
	for _, n := range patches {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if len(counts) != burst {
		t.Fatalf("the API server received patches for %d pods; want %d", len(counts), burst)
	}
	t.Logf("%d pods at once\n%s", burst, table.String())
	t.Logf("status patches a pod: p50 %d, p99 %d, most %d; the scheduler bound the last pod after %.1f s", percentile(counts, 50), percentile(counts, 99),
		percentile(counts, 100), percentile(api.bound, 100).Seconds())
	t.Logf("the cluster knew that a pod is ready p50 %.1f s, p99 %.1f s after the second in which it was", percentile(api.reported, 50).Seconds(),
		percentile(api.reported, 99).Seconds())
	t.Logf("the lease was renewed %d times, at the longest after %.1f s, and lasts %.0f s", health.renewals, health.longest.Seconds(), health.duration.Seconds())
	if percentile(counts, 100) > 6 {
		t.Errorf("one pod had %d patches until it was ready", percentile(counts, 100))
	}
	for _, not := range health.unready {
		t.Errorf("the node wasn't ready: %s", not)
	}
	if health.longest >= health.duration {
		t.Errorf("the lease was %v old; it lasts %v", health.longest, health.duration)
	}
}

// burstResult is the result of a burst: the times until each pod was bound, ready, and reported as ready, all
// sorted; and the daemons' usage.
type burstResult struct {
	began                  time.Time
	bound, ready, reported []time.Duration
	podexecd, podconfigd   time.Duration
}

// arrivals records when each pod reaches a state, until all have.
type arrivals struct {
	began time.Time
	at    map[string]time.Duration
}

func (a *arrivals) note(name string, so bool) {
	if _, noted := a.at[name]; so && !noted {
		a.at[name] = time.Since(a.began)
	}
}

func (a *arrivals) sorted() []time.Duration {
	var all []time.Duration
	for _, took := range a.at {
		all = append(all, took)
	}
	slices.Sort(all)
	return all
}

// burst creates the pods, and waits until all are ready.
func (s *space) burst(t *testing.T) *burstResult {
	t.Helper()
	client := s.site.Client.CoreV1().Pods(s.name)
	exec, config := cpu(t, s.node.Podexecd), cpu(t, s.node.Podconfigd)
	began := time.Now()
	bound, ready := arrivals{began, map[string]time.Duration{}}, arrivals{began, map[string]time.Duration{}}
	var making sync.WaitGroup
	defer making.Wait()
	slots := make(chan struct{}, 16)
	making.Go(func() {
		for i := range burst {
			slots <- struct{}{}
			making.Go(func() {
				defer func() { <-slots }()
				if _, err := client.Create(t.Context(), burstPod(i), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	})
	var reported []time.Duration
	rig.Get(awaitWithin(t.Context(), burstPatience, s.pods(), "all are ready", func(pods map[string]*corev1.Pod) error {
		for name, pod := range pods {
			bound.note(name, pod.Spec.NodeName != "")
			if _, known := ready.at[name]; isReady(pod) && !known {
				ready.note(name, true)
				reported = append(reported, time.Since(podCondition(pod, corev1.PodReady).LastTransitionTime.Time))
			}
		}
		return when(len(ready.at) == burst)
	}))(t)
	slices.Sort(reported)
	return &burstResult{
		began: began, bound: bound.sorted(), ready: ready.sorted(), reported: reported,
		podexecd: cpu(t, s.node.Podexecd) - exec, podconfigd: cpu(t, s.node.Podconfigd) - config,
	}
}

func burstPod(i int) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("burst-%03d", i)},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: sampleImage, Command: []string{"/sample", "sleep"}}},
		},
	}
}

// burstOfManifests gives the same pods to a standalone node, and removes them.
func burstOfManifests(t *testing.T, machine *devnode.Node) *burstResult {
	t.Helper()
	drafts, manifests := machine.Path("floor", "drafts"), machine.Path("floor", "manifests")
	for _, dir := range []string{drafts, manifests} {
		rig.Must(t, os.MkdirAll(dir, 0o755))
	}
	files := make([]string, burst)
	for i := range files {
		pod := burstPod(i)
		files[i] = pod.Name + ".json"
		rig.Must(t, os.WriteFile(filepath.Join(drafts, files[i]), rig.Get(json.Marshal(pod))(t), 0o644))
	}
	n := here.nodeOn(machine, "floor")
	n.Podconfigd = rig.Get(machine.StartDaemonAs("floor-podconfigd", "podconfigd", "--root-dir", n.Path("podconfigd"), "--listen", n.ConfigEndpoint(),
		"--hostname-override", n.Name, "--pod-manifest-path", manifests))(t)
	n.Podexecd = rig.Get(machine.StartDaemonAs("floor-podexecd", "podexecd", "--root-dir", n.Path("podexecd"),
		"--kubelet-dir", n.Path("kubelet"),
		"--listen", "unix://"+machine.Socket(n.Name+"-exec"), "--podconfig-endpoint", n.ConfigEndpoint(),
		"--container-runtime-endpoint", machine.Endpoint(), "--pod-logs-dir", n.Path("log", "pods"), "--hostname-override", n.Name))(t)
	defer func() { rig.Must(t, n.Kill()) }()
	o := observe(t, n)
	follow := func(enough func(pods map[string]shownPod) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), burstPatience)
		defer cancel()
		rig.Must(t, o.follow(ctx, enough))
	}
	follow(func(map[string]shownPod) bool { return true }) // podexecd is up
	exec, config := cpu(t, n.Podexecd), cpu(t, n.Podconfigd)
	ready := arrivals{time.Now(), map[string]time.Duration{}}
	for _, file := range files {
		rig.Must(t, os.Rename(filepath.Join(drafts, file), filepath.Join(manifests, file)))
	}
	follow(func(pods map[string]shownPod) bool {
		for name, p := range pods {
			ready.note(name, isTrue(&p.status, corev1.PodReady))
		}
		return len(ready.at) == burst
	})
	r := &burstResult{began: ready.began, ready: ready.sorted(), podexecd: cpu(t, n.Podexecd) - exec, podconfigd: cpu(t, n.Podconfigd) - config}
	for _, file := range files {
		rig.Must(t, os.Remove(filepath.Join(manifests, file)))
	}
	follow(func(pods map[string]shownPod) bool { return len(pods) == 0 })
	return r
}

// follow watches podexecd's pods until enough returns true.
func (o *observer) follow(ctx context.Context, enough func(pods map[string]shownPod) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := o.exec.WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF},
		grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	pods, synced := map[string]shownPod{}, false
	for {
		message, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watch what podexecd shows, which is %d pods: %w", len(pods), err)
		}
		switch event := message.GetEvent().(type) {
		case *podexecv1.WatchPodStatusResponse_Pod:
			shown := shownPod{ObservedPod: event.Pod}
			if err := shown.status.Unmarshal(event.Pod.GetProtobuf()); err != nil {
				return err
			}
			pods[event.Pod.GetRef().GetName()] = shown
		case *podexecv1.WatchPodStatusResponse_Removed:
			delete(pods, event.Removed.GetName())
		case *podexecv1.WatchPodStatusResponse_Synced:
			synced = true
		}
		if synced && enough(pods) {
			return nil
		}
	}
}

// cpu returns the CPU time of a process.
func cpu(t *testing.T, p *devnode.Process) time.Duration {
	t.Helper()
	const ticks = 100 // per second, on every Linux
	stat := string(rig.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid())))(t))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // from the third one on
	user, system := rig.Get(strconv.Atoi(fields[11]))(t), rig.Get(strconv.Atoi(fields[12]))(t)
	return time.Duration(user+system) * time.Second / ticks
}
