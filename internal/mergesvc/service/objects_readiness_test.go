package service

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// deafStream accepts every message.
type deafStream struct {
	grpc.ServerStream
	sent int
}

func (s *deafStream) SendMsg(any) error {
	s.sent++
	return nil
}

// TestObjectsUnreadyCostsWhatChanges: while a source isn't ready, the cost of a revision for a consumer depends
// on the changes, not on all objects that the consumer sees.
func TestObjectsUnreadyCostsWhatChanges(t *testing.T) {
	pods := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}})
	hub := objects.New(objects.Config{History: pods.History()})
	server := New(Config{History: pods.History(), Objects: hub})
	ctx := access.NewContext(t.Context(), access.Caller{Identity: "uid:0", Role: access.Consumer})
	sub, _, err := newObjectSubscription(ctx, &podconfigv1.WatchObjectsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	looks, stream := 0, &deafStream{}
	scope := objects.Scope{Match: func(*revision.Pod) bool { looks++; return true }}
	reader := hub.NewReader(scope)
	c, err := server.consumers.add(sub, reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &objectWatch{
		consumer: c, server: server, objects: hub, log: slog.New(slog.DiscardHandler), out: sender{stream: stream, consumer: c, clock: server.clock},
		scope: scope, reader: reader,
	}
	const crowd = 100
	apply := func(source string, count, version int) {
		s := manifest.Set{Source: source, ReadTime: time.Unix(1, 0)}
		for i := range count {
			o := &manifest.Origin{Name: fmt.Sprint(i), Pods: []*manifest.Pod{userOf(source, i)}}
			if source == "file" {
				o.Objects = []*manifest.Object{configMap(t, i, version)}
			}
			s.Origins = append(s.Origins, o)
		}
		mergesvc.Intake{Pods: pods, Objects: hub}.Apply(s)
		hub.Advance()
	}
	follow := func() {
		t.Helper()
		for {
			if sent, _, err := w.follow(); err != nil || !sent {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	apply("file", crowd, 1)
	apply("api", 2, 0)
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	asked, stop := context.WithCancel(t.Context())
	following, reported := make(chan struct{}), make(chan func(manifest.ObjectKey, *manifest.Object), 1)
	go func() {
		defer close(following)
		_ = hub.Follow(asked, "api", func(
			ctx context.Context, wanted <-chan []manifest.ObjectKey, out func(manifest.ObjectKey, *manifest.Object),
		) error {
			for len(<-wanted) < 2 {
			}
			reported <- out
			<-ctx.Done()
			return nil
		})
	}()
	defer func() {
		stop()
		<-following
	}()
	out := <-reported
	isReady := func() bool { return w.sources[1].GetReady() }
	follow()
	looks = 0
	out(configMap(t, 0, 1).Key(), configMap(t, 0, 1))
	follow()
	if looks >= crowd || isReady() {
		t.Errorf("for one object of the source, and not its last, %d pods were looked at; ready: %v", looks, isReady())
	}
	looks = 0
	out(configMap(t, 1, 1).Key(), nil)
	follow()
	if looks < crowd || !isReady() {
		t.Errorf("with its last object the source is ready: %v", isReady())
	}
}

// userOf returns a pod with a ConfigMap of the same number.
func userOf(source string, i int) *manifest.Pod {
	name := fmt.Sprint(source, "-", i)
	volume := v1.Volume{Name: "c"}
	volume.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: fmt.Sprint("c", i)}}
	return mergetest.Pod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Volumes: []v1.Volume{volume}},
	})
}

func configMap(t *testing.T, i, version int) *manifest.Object {
	t.Helper()
	o, err := manifest.NewConfigMap(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}, Data: map[string]string{"v": fmt.Sprint(version)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
