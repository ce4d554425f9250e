package relay

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// wireObject returns the object SOURCE/NAME=VALUE as in a message: a Secret if its name starts with s,
// otherwise a ConfigMap. Without a value it is only a reference.
func wireObject(text string) *podconfigv1.Object {
	name, value, has := strings.Cut(text, "=")
	source, name, _ := strings.Cut(name, "/")
	m := &podconfigv1.Object{Ref: &podconfigv1.ObjectRef{
		Kind: podconfigv1.ObjectKind(key(name).Kind), Namespace: "default", Name: name, Source: source,
	}}
	if !has {
		return m
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: name}
	var object *manifest.Object
	var data []byte
	var err error
	if key(name).Kind == manifest.SecretKind {
		secret := &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte(value)}}
		if data, err = secret.Marshal(); err == nil {
			object, err = manifest.NewSecret(secret)
		}
	} else {
		config := &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": value}}
		if data, err = config.Marshal(); err == nil {
			object, err = manifest.NewConfigMap(config)
		}
	}
	if err != nil {
		panic(err)
	}
	m.Digest, m.Content = object.Digest, &podconfigv1.Object_Protobuf{Protobuf: data}
	return m
}

func key(name string) sources.ObjectKey {
	k := sources.ObjectKey{Kind: manifest.ConfigMapKind, Namespace: "default", Name: name}
	if strings.HasPrefix(name, "s") {
		k.Kind = manifest.SecretKind
	}
	return k
}

// objectOp returns an update. A zero revision means that more follows.
func objectOp(revision uint64, op podconfigv1.ObjectOperation, texts ...string) *objects {
	u := &podconfigv1.ObjectUpdate{Op: op}
	for _, text := range texts {
		u.Objects = append(u.Objects, wireObject(text))
	}
	m := &objects{Event: &podconfigv1.WatchObjectsResponse_Update{Update: u}, Continued: revision == 0}
	if revision > 0 {
		m.Cursor = cursor(revision)
	}
	return m
}

// objectsSynced lists the sources api and file in that order. A sign before a name means that it isn't ready.
func objectsSynced(revision uint64, names ...string) *objects {
	return &objects{Event: &podconfigv1.WatchObjectsResponse_Synced{Synced: &podconfigv1.Synced{Sources: ready(names...)}}, Cursor: cursor(revision)}
}

func sending(err error, messages ...*objects) func(objectStream) error {
	return func(s objectStream) error {
		for _, m := range messages {
			_ = s.Send(m)
		}
		return err
	}
}

// followed is the reports of RunObjects.
type followed struct {
	t      *testing.T
	wanted chan []sources.ObjectKey
	news   chan string
	log    *logtest.Buffer
	stop   func()
}

func follow(t *testing.T, endpoint string, c clock.WithTicker) *followed {
	t.Helper()
	f := &followed{t: t, wanted: make(chan []sources.ObjectKey), news: make(chan string), log: &logtest.Buffer{}}
	s, err := New(Config{
		Endpoint: endpoint, ID: "own-id", Node: "own-node", Backoff: quick, Clock: c, MaxPods: 5, MaxBytes: 64 << 10,
		Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.stop = inBackground(t, func(ctx context.Context) error {
		return s.RunObjects(ctx, f.wanted, func(k sources.ObjectKey, o *manifest.Object) {
			text := k.Name + " is missing"
			switch {
			case o != nil && o.Secret != nil:
				text = k.Name + "=" + string(o.Secret.Data["k"])
			case o != nil:
				text = k.Name + "=" + o.ConfigMap.Data["k"]
			}
			select {
			case f.news <- text:
			case <-ctx.Done():
			}
		})
	})
	return f
}

func (f *followed) want(names ...string) {
	f.t.Helper()
	var keys []sources.ObjectKey
	for _, name := range names {
		keys = append(keys, key(name))
	}
	select {
	case f.wanted <- keys:
	case got := <-f.news:
		f.t.Fatalf("it reports %s; want nothing now", got)
	case <-time.After(deadline):
		f.t.Fatalf("the wanted objects aren't accepted within %v", deadline)
	}
}

// expect waits for exactly these reports, in any order.
func (f *followed) expect(want ...string) {
	f.t.Helper()
	left := map[string]bool{}
	for _, w := range want {
		left[w] = true
	}
	for len(left) > 0 {
		select {
		case got := <-f.news:
			if !left[got] {
				f.t.Fatalf("it reports %s; want %q", got, want)
			}
			delete(left, got)
		case <-time.After(deadline):
			f.t.Fatalf("%v aren't reported within %v; the log:\n%s", left, deadline, f.log)
		}
	}
}
