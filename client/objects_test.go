package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectDaemon is a daemon with objects; it can lose its objects' state.
type objectDaemon struct {
	*daemon
	objects *objects.Hub
	// wrap replaces the service. Nil: it stays.
	wrap func(podconfigv1.PodConfigServiceServer) podconfigv1.PodConfigServiceServer
}

func newObjectDaemon() *objectDaemon {
	d := &objectDaemon{daemon: newDaemon()}
	d.reset()
	return d
}

// reset replaces the objects by those of a new process.
func (d *objectDaemon) reset() {
	d.objects = objects.New(objects.Config{History: d.hub.History()})
}

func (d *objectDaemon) serve(p place) (stop func(), err error) {
	svc := service.New(service.Config{History: d.hub.History(), Sources: d.hub.Sources, Objects: d.objects})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.objects.Run(ctx) })
	var api podconfigv1.PodConfigServiceServer = svc
	if d.wrap != nil {
		api = d.wrap(svc)
	}
	end, err := p.serve(api, svc.Close)
	return func() {
		if end != nil {
			end()
		}
		cancel()
		running.Wait()
	}, err
}

// apply applies a set with a pod that refers to all Secrets "NAME=VALUE", to those with only a name, which don't exist, and to
// the claims "claim/NAME".
func (d *objectDaemon) apply(source string, maps ...string) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID(source + strings.Join(maps, " "))}}
	o := &manifest.Origin{Name: "a"}
	for _, text := range maps {
		if name, is := strings.CutPrefix(text, "claim/"); is {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
			claim, err := manifest.NewClaim(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
			if err != nil {
				panic(err)
			}
			o.Objects = append(o.Objects, claim)
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
		if !ok {
			continue
		}
		secret, err := manifest.NewSecret(&v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string][]byte{"v": []byte(value)},
		})
		if err != nil {
			panic(err)
		}
		o.Objects = append(o.Objects, secret)
	}
	if len(maps) > 0 {
		o.Pods = []*manifest.Pod{mergetest.Pod(p)}
	}
	d.second++
	mergesvc.Intake{Pods: d.hub, Objects: d.objects}.Apply(manifest.Set{Source: source, ReadTime: time.Unix(d.second, 0), Origins: []*manifest.Origin{o}})
}

// objectConsumer runs one WatchObjects and passes its events on.
type objectConsumer struct {
	t      *testing.T
	events chan client.ObjectEvent
	ended  chan error
	client *client.Client
}

func watchObjects(t *testing.T, p place, opts client.ObjectOptions) *objectConsumer {
	t.Helper()
	return watchObjectsWith(t, client.Config{Endpoint: p.endpoint}, opts)
}

func watchObjectsWith(t *testing.T, cfg client.Config, opts client.ObjectOptions) *objectConsumer {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := &objectConsumer{t: t, client: c}
	w.events, w.ended, _ = collect(t, func(ctx context.Context, take func(context.Context, client.ObjectEvent) error) error {
		return c.WatchObjects(ctx, opts, take)
	})
	return w
}

// want waits for the next event and compares it with words like "-gone +new=1 ?missing synced file api?".
func (w *objectConsumer) want(want string) client.ObjectEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		if got := objectWords(e); got != want {
			w.t.Fatalf("the next event is %q; want %q", got, want)
		}
		return e
	case err := <-w.ended:
		w.t.Fatalf("WatchObjects ended with %v; want the event %q", err, want)
	case <-time.After(deadline):
		w.t.Fatalf("no event in %v; want %q", deadline, want)
	}
	return client.ObjectEvent{}
}

func objectWords(e client.ObjectEvent) string {
	var words []string
	for _, ref := range e.Removed {
		words = append(words, "-"+ref.Name)
	}
	for _, o := range e.Put {
		if o.Claim != nil {
			words = append(words, "+"+o.Name)
			continue
		}
		words = append(words, fmt.Sprintf("+%s=%s", o.Name, o.Secret.Data["v"]))
	}
	for _, ref := range e.Missing {
		words = append(words, "?"+ref.Name)
	}
	if e.Synced {
		words = append(words, "synced")
	}
	for _, s := range e.Sources {
		words = append(words, s.Name+map[bool]string{false: "?"}[s.Ready])
	}
	return strings.Join(words, " ")
}

// TestWatchObjects: across restarts of podconfigd, with and without the objects' state, and across restarts of the
// consumer, nothing is missing and nothing comes twice.
func TestWatchObjects(t *testing.T) {
	p, d := testPlace(t), newObjectDaemon()
	d.apply("file", "a=1", "b=1", "c")
	d.apply("api")
	stop := up(t, p, d)
	w := watchObjects(t, p, client.ObjectOptions{})
	first := w.want("+a=1 +b=1 ?c synced file api")
	d.apply("file", "a=2", "b=1", "c")
	w.want("+a=2")

	stop()
	d.apply("file", "a=2", "c=1")
	stop = up(t, p, d)
	w.want("+c=1")
	w.want("-b")
	w.want("synced file api")

	stop()
	d.reset()
	d.apply("file", "a=2", "c=2")
	stop = up(t, p, d)
	w.want("+c=2 synced file api")

	// Another life of the consumer, which has what it was given first.
	known := append([]client.Object{{ObjectRef: first.Missing[0]}}, first.Put...)
	watchObjects(t, p, client.ObjectOptions{ResumeAfter: first.Cursor, Known: known}).want("-b +a=2 +c=2 synced file api")
	stop()
}

// TestWatchObjectsUnready: held objects of a source stay until the source is ready.
func TestWatchObjectsUnready(t *testing.T) {
	p, d := testPlace(t), newObjectDaemon()
	up(t, p, d)
	ref := client.ObjectRef{Kind: client.SecretKind, Source: "file", Namespace: "default", Name: "a"}
	w := watchObjects(t, p, client.ObjectOptions{Known: []client.Object{{ObjectRef: ref, Digest: "old"}}})
	w.want("synced file? api?")
	d.apply("file")
	w.want("-a file api?")
}

// TestWatchObjectsEnds: the consumer's own error and Close end it.
func TestWatchObjectsEnds(t *testing.T) {
	p, d := testPlace(t), newObjectDaemon()
	up(t, p, d)
	c, err := client.New(client.Config{Endpoint: p.endpoint})
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Errorf("own")
	if err := c.WatchObjects(t.Context(), client.ObjectOptions{}, func(context.Context, client.ObjectEvent) error { return own }); !errors.Is(err, own) {
		t.Errorf("WatchObjects ends with %v; want the handler's error", err)
	}
	w := watchObjects(t, p, client.ObjectOptions{})
	w.want("synced file? api?")
	_ = w.client.Close()
	if err := <-w.ended; !errors.Is(err, client.ErrClosed) {
		t.Errorf("WatchObjects ends with %v; want ErrClosed", err)
	}
	_ = c.Close()
}
