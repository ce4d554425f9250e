package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// confirmBound is how long a confirmation may take while nothing happens.
const confirmBound = 2 * time.Second

// source is the source of podconfigd in this process, and its last set.
type source struct {
	*apiserver.Source
	log logtest.Buffer

	mu  sync.Mutex
	set manifest.Set
}

// newSource runs the source of these nodes until the test ends. The store is in the file.
func newSource(t *testing.T, file, user, group string, nodes ...string) (s *source, stop func()) {
	t.Helper()
	credentials := rig.Get(plane.Authority.Issue(user, group, time.Now().Add(control.CertificateLife)))(t)
	s = &source{}
	s.Source = rig.Get(apiserver.New(apiserver.Config{
		RESTConfig: plane.ClientConfig(plane.URL, credentials), Nodes: nodes, ClusterFile: file,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx, func(set manifest.Set) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.set = set
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if t.Failed() {
			t.Logf("the source's log:\n%s", s.log.String())
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// last returns the last set.
func (s *source) last() manifest.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// await waits for a set with progress, exactly these pods, and what else is wanted.
func (s *source) await(t *testing.T, what string, pods []string, so func(manifest.Progress) bool) manifest.Progress {
	t.Helper()
	var found manifest.Progress
	rig.Must(t, control.Until(t.Context(), nil, what, func(context.Context) error {
		set := s.last()
		var names []string
		for _, o := range set.Origins {
			names = append(names, strings.TrimPrefix(o.Name, namespace+"/"))
		}
		switch {
		case set.Err != nil, set.Progress == nil, pods != nil && !slices.Equal(names, pods), !so(*set.Progress):
			return fmt.Errorf("%w: %v, pods %v, progress %+v", control.ErrNotYet, set.Err, names, set.Progress)
		}
		found = *set.Progress
		return nil
	}))
	return found
}

// confirmed waits for the confirmation, and returns how long that took.
func (s *source) confirmed(t *testing.T, nodes []string, pods []string) (manifest.Progress, time.Duration) {
	t.Helper()
	began := time.Now()
	number := s.Confirm(nodes)
	p := s.await(t, "a confirmation", pods, func(p manifest.Progress) bool { return p.Confirmed >= number })
	return p, time.Since(began)
}

func changedAt(version string) func(manifest.Progress) bool {
	return func(p manifest.Progress) bool { return p.Changed[0].ResourceVersion == version }
}

func isEpoch1(p manifest.Progress) bool { return p.Changed[0].Epoch == 1 }

// isAtLeast reports whether a version isn't older than another one.
func isAtLeast(t *testing.T, p position.Positions, version string) bool {
	t.Helper()
	return rig.Get(resourceversion.CompareResourceVersion(p[0].ResourceVersion, version))(t) >= 0
}

// The positions of the source follow the API server. A confirmation is quick while nothing happens. If etcd is restored from
// a snapshot, another epoch begins, and the pods are those of the snapshot.
func TestPositions(t *testing.T) {
	client := plane.client(t)
	const name, other = "position", "position-other"
	dir := t.TempDir()
	s, _ := newSource(t, filepath.Join(dir, "node.json"), "system:node:"+name, "system:nodes", name)
	gateway, _ := newSource(t, filepath.Join(dir, "all.json"), "gateway", "system:masters", apiserver.AllNodes)
	some, _ := newSource(t, filepath.Join(dir, "some.json"), "gateway", "system:masters", name, "position-none")
	n := &node{name: name}
	pods := client.CoreV1().Pods(namespace)
	current := func(pod string) string {
		return rig.Get(pods.Get(t.Context(), pod, metav1.GetOptions{}))(t).ResourceVersion
	}
	check(t, "the position is that of the last change", func(t *testing.T) {
		s.await(t, "the first set", []string{}, func(manifest.Progress) bool { return true })
		n.create(t, client, "position-a")
		p := s.await(t, "an addition", []string{"position-a"}, changedAt(current("position-a")))
		if got := p.Changed[0]; got.Cluster != clusterUID(t) || got.Epoch != 0 || got.Replaced != nil {
			t.Errorf("the position is %+v", got)
		}
		relabel(t, client, "position-a", "2")
		last := current("position-a")
		s.await(t, "a change", []string{"position-a"}, changedAt(last))
		n.create(t, client, "position-b")
		vanish(t, client, "position-a")
		s.await(t, "a deletion", []string{"position-b"}, func(p manifest.Progress) bool { return isAtLeast(t, p.Changed, last) })
	})
	check(t, "a confirmation of a quiet watch takes less than two seconds", func(t *testing.T) {
		// It is current once a list of all nodes' pods has shown it.
		unrelated := createOn(t, other, client, "position-unrelated").ResourceVersion
		for what, confirm := range map[string]func() (manifest.Progress, time.Duration){
			"a node":     func() (manifest.Progress, time.Duration) { return s.confirmed(t, nil, []string{"position-b"}) },
			"a gateway":  func() (manifest.Progress, time.Duration) { return gateway.confirmed(t, nil, nil) },
			"two nodes":  func() (manifest.Progress, time.Duration) { return some.confirmed(t, nil, []string{"position-b"}) },
			"one of all": func() (manifest.Progress, time.Duration) { return gateway.confirmed(t, []string{name}, nil) },
			"one of two": func() (manifest.Progress, time.Duration) {
				return some.confirmed(t, []string{name}, []string{"position-b"})
			},
			"the same one": func() (manifest.Progress, time.Duration) {
				return s.confirmed(t, []string{name}, []string{"position-b"})
			},
		} {
			p, took := confirm()
			t.Logf("%s: %v", what, took)
			if took > confirmBound {
				t.Errorf("%s: the confirmation took %v", what, took)
			}
			if what == "a node" && !isAtLeast(t, p.Current, unrelated) {
				t.Errorf("%s: it is current at %s, before %s", what, p.Current[0].ResourceVersion, unrelated)
			}
		}
		vanish(t, client, "position-unrelated")
	})
	check(t, "confirmations while pods change have what was changed before them", func(t *testing.T) {
		for i := range 10 {
			added := fmt.Sprint("position-new-", i)
			version := n.create(t, client, added).ResourceVersion
			p, _ := gateway.confirmed(t, []string{name}, nil)
			if !isAtLeast(t, p.Changed, version) {
				t.Errorf("the confirmed set has changed at %s; a pod was added at %s", p.Changed[0].ResourceVersion, version)
			}
			vanish(t, client, added)
			s.confirmed(t, nil, []string{"position-b"})
		}
	})
	t.Cleanup(func() {
		// Later tests use the store that etcd began with.
		if _, err := plane.Client(context.Background()); err != nil {
			t.Error(err)
			return
		}
		plane.Kill()
		if err := plane.Etcd.Replace(context.Background(), control.FirstStore); err != nil {
			t.Error(err)
			return
		}
		// That has the pods of this test.
		client, err := plane.Client(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		for _, left := range []string{"position-b", "position-lost"} {
			err := client.CoreV1().Pods(namespace).Delete(context.Background(), left, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	check(t, "etcd is restored from a snapshot, and the server restarted: another epoch, with the snapshot's pods", func(t *testing.T) {
		rig.Must(t, plane.Etcd.Save(t.Context(), "saved"))
		rig.Must(t, control.Until(t.Context(), nil, "the server works again", func(ctx context.Context) error {
			_, err := pods.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "position-lost"},
				Spec: corev1.PodSpec{NodeName: name, AutomountServiceAccountToken: new(false),
					Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/main:1"}}},
			}, metav1.CreateOptions{})
			return err
		}))
		for i := range 20 {
			relabelled := rig.Get(pods.Get(t.Context(), "position-b", metav1.GetOptions{}))(t)
			relabelled.Labels["version"] = fmt.Sprint("lost-", i)
			rig.Get(pods.Update(t.Context(), relabelled, metav1.UpdateOptions{}))(t)
		}
		before := s.await(t, "the pods that are lost later", []string{"position-b", "position-lost"}, changedAt(current("position-b")))
		gateway.await(t, "the same at the gateway", nil, changedAt(current("position-b")))
		plane.Kill()
		rig.Must(t, plane.Etcd.Replace(t.Context(), "saved"))
		plane.resume(t)
		began := time.Now()
		p := s.await(t, "another epoch", []string{"position-b"}, isEpoch1)
		t.Logf("the epoch began %v after the server was ready, at %+v after %+v", time.Since(began), p.Changed, before.Changed)
		gateway.await(t, "another epoch at the gateway", nil, isEpoch1)
		some.await(t, "another epoch for two nodes", []string{"position-b"}, isEpoch1)
		if n := strings.Count(s.log.String(), "has gone back"); n != 1 {
			t.Errorf("%d lines of the log say that the history has gone back", n)
		}
		if stored := string(rig.Get(os.ReadFile(filepath.Join(dir, "node.json")))(t)); !strings.Contains(stored, `"epoch":1`) {
			t.Errorf("%s is stored", stored)
		}
	})
	check(t, "pods are added and removed as before, and confirmed", func(t *testing.T) {
		client := plane.client(t)
		n.create(t, client, "position-c")
		s.await(t, "an addition", []string{"position-b", "position-c"}, func(manifest.Progress) bool { return true })
		vanish(t, client, "position-c")
		p, _ := s.confirmed(t, nil, []string{"position-b"})
		if p.Changed[0].Epoch != 1 {
			t.Errorf("the confirmed epoch is %d", p.Changed[0].Epoch)
		}
	})
	check(t, "the server restarts: the source, with the node's role, checks that the history goes on, and it does", func(t *testing.T) {
		plane.stop(t)
		plane.resume(t)
		rig.Must(t, control.Until(t.Context(), nil, "a probe", func(context.Context) error {
			for _, r := range plane.requests(t, "system:node:"+name, "pods") {
				if strings.Contains(r.query.Get("fieldSelector"), "podstream_probe") && r.code == http.StatusOK {
					return nil
				}
			}
			return control.ErrNotYet
		}))
		if p, _ := s.confirmed(t, nil, []string{"position-b"}); p.Changed[0].Epoch != 1 {
			t.Errorf("the confirmed epoch is %d", p.Changed[0].Epoch)
		}
	})
}
