package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

const (
	// killPatience is the time limit for all views to agree after a death. faultPatience is the limit where a
	// fault may prevent it.
	killPatience, faultPatience = 60 * time.Second, 8 * time.Second
	// killPause is how long a killed daemon stays away.
	killPause = 300 * time.Millisecond
)

// A life is the steps of a pod's lifecycle. After each step, the test waits for the final state.
type life struct {
	name  string
	steps []step
}

type step struct {
	what string
	do   func(t *testing.T, s *space)
}

// lives are the lifecycles of an API pod, with a Job's pod, and of a static pod.
var lives = []life{
	{"api", []step{
		{"an API pod is made", func(t *testing.T, s *space) {
			s.applyPod(t, "box", sampleImage, idle, "terminationGracePeriodSeconds: 1")
		}},
		{"it is deleted", func(t *testing.T, s *space) { s.kubectl(t, "delete", "pod", "box", "--wait=false") }},
		{"a pod ends by itself", func(t *testing.T, s *space) {
			s.applyPod(t, "job", sampleImage, sample("exit", "3", "500ms"), "restartPolicy: Never")
		}},
		{"it is deleted", func(t *testing.T, s *space) { s.kubectl(t, "delete", "pod", "job", "--wait=false") }},
	}},
	{"static", []step{
		{"a static pod is added", func(t *testing.T, s *space) { s.node.addManifest(t, "static", staticPod(s.name, "1")) }},
		{"it is changed", func(t *testing.T, s *space) { s.node.addManifest(t, "static", staticPod(s.name, "2")) }},
		{"it is removed", func(t *testing.T, s *space) { s.node.removeManifest(t, "static") }},
	}},
}

// death is a point at which podexecd dies.
type death struct {
	point failpoint.Point
	// times is how often it passes the point before it dies.
	times int
	life  life
}

func (d death) String() string { return fmt.Sprintf("%s:%d, %s pod", d.point, d.times, d.life.name) }

// deaths returns the deaths at each point that a lifecycle passes: at requests, one for each time, and at calls
// to the runtime, only one.
func deaths() []death {
	var all []death
	api, static := lives[0], lives[1]
	for _, point := range failpoint.ClusterPoints() {
		request := strings.Split(string(point), "/")[1]
		for _, of := range []struct {
			life  life
			count map[string]int
		}{
			{api, map[string]int{"PatchPodStatus": 5, "DeletePod": 2}},
			{static, map[string]int{"CreatePod": 2, "PatchPodStatus": 2, "DeletePod": 2}},
		} {
			for times := range of.count[request] {
				all = append(all, death{point, times + 1, of.life})
			}
		}
	}
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox"} {
		for _, point := range []failpoint.Point{failpoint.BeforeCall(call), failpoint.AfterCall(call)} {
			all = append(all, death{point, 1, api}, death{point, 1, static})
		}
	}
	return all
}

// The daemons are killed in each phase of pods' lifecycles, podexecd at each of its points and podconfigd at
// all times. Afterwards the API server has the true state: no pod is stuck, no pod is reported as running that
// doesn't run, and the API server has each running pod.
func TestKillCluster(t *testing.T) {
	binaries := buildWithFailpoints(t)
	machine := newMachine(t, "killed-machine", binaries)
	n := newNode(t, "killed", func(n *node) { n.Machine = machine }, hurried)
	s := newSpace(t, n)
	k := &killer{space: s, observer: observe(t, n)}
	s.applyPod(t, "bystander", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	n.addManifest(t, "witness", staticPodOf("witness", s.name, "1"))
	s.awaitReady(t, "bystander")
	s.awaitReady(t, "witness-killed")
	rig.Must(t, k.rest(t, killPatience))
	before := k.seen.ids("bystander", "witness-killed")
	if len(before) != 2 {
		t.Fatalf("the bystanders' containers are %v", before)
	}
	var reported []string
	failed := 0
	try := func(what string, do func(t *testing.T) string) {
		t.Helper()
		if failed > 2 { // what these left would fail the next ones
			return
		}
		outcome := "FAILED"
		if !t.Run(what, func(t *testing.T) { outcome = do(t) }) {
			failed++
		}
		reported = append(reported, fmt.Sprintf("%-48s %s", what, outcome))
	}
	for _, point := range []failpoint.Point{failpoint.BeforeRequest("CreateNode"), failpoint.AfterRequest("CreateNode")} {
		try(string(point), func(t *testing.T) string { return k.registering(t, point) })
	}
	for _, d := range deaths() {
		try(d.String(), func(t *testing.T) string { return k.dieAt(t, d) })
	}
	for _, point := range failpoint.ConfigPoints() {
		for _, l := range lives {
			try(fmt.Sprintf("%s, %s pod", point, l.name), func(t *testing.T) string { return k.dieAt(t, death{point, 3, l}) })
		}
	}
	for _, l := range lives {
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond} {
			try(fmt.Sprintf("podconfigd after %v, %s pod", after, l.name), func(t *testing.T) string { return k.timed(t, l, after) })
		}
	}
	t.Logf("%d deaths\n%s", len(reported), strings.Join(reported, "\n"))
	if got := k.seen.ids("bystander", "witness-killed"); failed == 0 && fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("the bystanders' containers are %v; want %v still", got, before)
	}
	if failed == 0 {
		k.faults(t)
	}
}

// killer kills a node's daemons.
type killer struct {
	*space
	*observer
	// seen is the last view of the node in its final state.
	seen *view
}

// rest waits until all views agree, and the pods that should run do.
func (k *killer) rest(t *testing.T, patience time.Duration) (err error) {
	t.Helper()
	k.seen, err = k.settled(t.Context(), patience)
	return err
}

// errDied ends a wait whose condition can no longer be met.
var errDied = errors.New("the daemon has died")

// restAfter is rest after a step, whose effect must be visible first. It returns errDied once died is closed;
// nil is never closed.
func (k *killer) restAfter(t *testing.T, l life, at int, patience time.Duration, died <-chan struct{}) error {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	go func() {
		select {
		case <-died:
			end(errDied)
		case <-ctx.Done():
		}
	}()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := control.Until(waiting, nil, "it shows, and API server, podexecd and runtime agree", func(ctx context.Context) error {
		if err := k.came(ctx, l, at); err != nil {
			return err
		}
		v, err := k.look(ctx)
		if err != nil {
			return err
		}
		k.seen = v
		return errors.Join(v.differences()...)
	})
	if errors.Is(context.Cause(ctx), errDied) {
		return errDied
	}
	return err
}

// came returns nil if the API server has the result of a step.
func (k *killer) came(ctx context.Context, l life, at int) error {
	name := map[string][]string{"api": {"box", "box", "job", "job"}, "static": {"static-killed", "static-killed", "static-killed"}}[l.name][at]
	pod, err := here.Client.CoreV1().Pods(k.name).Get(ctx, name, metav1.GetOptions{})
	if gone := strings.Contains(l.steps[at].what, "deleted") || strings.Contains(l.steps[at].what, "removed"); gone {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod %s is there still: %w", name, errors.Join(err, errNo))
	}
	switch {
	case err != nil:
		return err
	case name == "job":
		if ended := pod.Status.ContainerStatuses; pod.Status.Phase != corev1.PodFailed || ended[0].State.Terminated == nil || ended[0].State.Terminated.ExitCode != 3 {
			return fmt.Errorf("pod %s is %s", name, describe(pod))
		}
		return nil
	case l.name == "static" && pod.Labels["version"] != fmt.Sprint(at+1), !isReady(pod):
		return fmt.Errorf("pod %s, version %s, is %s", name, pod.Labels["version"], describe(pod))
	}
	return nil
}

// dieAt makes the daemon die at a point in a lifecycle, starts it again, and returns when it died.
func (k *killer) dieAt(t *testing.T, d death) string {
	daemon := k.space.node.Podexecd
	if slices.Contains(failpoint.ConfigPoints(), d.point) {
		daemon = k.space.node.Podconfigd
	}
	rig.Must(t, daemon.Kill())
	startToDie(t, daemon, d)
	return k.live(t, d.life, func(at int) (string, error) {
		err := k.restAfter(t, d.life, at, killPatience, daemon.Done())
		if !errors.Is(err, errDied) {
			return "", err
		}
		if err := diedAt(daemon, d.point); err != nil {
			return "", err
		}
		rig.Must(t, daemon.Start())
		return "died when " + d.life.steps[at].what, k.restAfter(t, d.life, at, killPatience, nil)
	})
}

// live runs the steps of a lifecycle. After each step it calls after, which reports whether a daemon died. It
// is an error if no daemon dies.
func (k *killer) live(t *testing.T, l life, after func(at int) (string, error)) string {
	t.Helper()
	began, outcome := time.Now(), ""
	for at, step := range l.steps {
		step.do(t, k.space)
		said, err := after(at)
		if err != nil {
			t.Fatalf("after %s: %v", step.what, err)
		}
		if said != "" && outcome == "" {
			outcome = said
		}
	}
	if outcome == "" {
		t.Error("no daemon died: the point was never reached")
	}
	return fmt.Sprintf("%s; all well after %.1f s", outcome, time.Since(began).Seconds())
}

// registering makes podexecd die when it creates its Node object.
func (k *killer) registering(t *testing.T, point failpoint.Point) string {
	began, n := time.Now(), k.space.node
	rig.Must(t, n.Podexecd.Kill())
	here.kubectl(t, "delete", "node", n.Name)
	startToDie(t, n.Podexecd, death{point: point, times: 1})
	select {
	case <-n.Podexecd.Done():
	case <-time.After(killPatience):
		t.Fatal("the point was never reached")
	}
	rig.Must(t, diedAt(n.Podexecd, point))
	rig.Must(t, n.Podexecd.Start())
	rig.Must(t, n.AwaitReady(t.Context()))
	rig.Must(t, k.rest(t, killPatience))
	return fmt.Sprintf("died when it registered; recovered after %.1f s", time.Since(began).Seconds())
}

// timed kills podconfigd this long after each step.
func (k *killer) timed(t *testing.T, l life, after time.Duration) string {
	return k.live(t, l, func(at int) (string, error) {
		<-time.After(after)
		rig.Must(t, k.space.node.Podconfigd.Kill())
		<-time.After(killPause)
		rig.Must(t, k.space.node.Podconfigd.Start())
		return "died after each step", k.restAfter(t, l, at, killPatience, nil)
	})
}
