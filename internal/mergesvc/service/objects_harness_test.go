package service_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectNode is a node that also serves objects.
type objectNode struct {
	*node
	objects *objects.Hub
}

// startObjects starts a node that keeps this many revisions of objects. Zero means the default.
func startObjects(t *testing.T, revisions int, o options) *objectNode {
	t.Helper()
	n := &objectNode{}
	configure := o.service
	o.service = func(c *service.Config) {
		n.objects = objects.New(objects.Config{
			History: c.History, Revisions: revisions, Logger: c.Logger,
		})
		c.Objects = n.objects
		if configure != nil {
			configure(c)
		}
	}
	n.node = start(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.objects.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n
}

// apply merges a set of origins with its objects.
func (n *objectNode) apply(source string, origins ...*manifest.Origin) {
	n.second++
	mergesvc.Intake{Pods: n.hub, Objects: n.objects}.Apply(manifest.Set{Source: source, ReadTime: time.Unix(n.second, 0), Origins: origins})
}

// from returns an origin with pods and objects.
func from(name string, content ...any) *manifest.Origin {
	o := &manifest.Origin{Name: name}
	for _, c := range content {
		switch c := c.(type) {
		case *manifest.Pod:
			o.Pods = append(o.Pods, c)
		case *manifest.Object:
			o.Objects = append(o.Objects, c)
		}
	}
	return o
}

// user returns a pod of a node that has "cm/NAME" and "secret/NAME" as volumes.
func user(name, node string, refs ...string) *manifest.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node}}
	for _, ref := range refs {
		kind, object, _ := strings.Cut(ref, "/")
		v := v1.Volume{Name: object}
		if kind == "cm" {
			v.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: object}}
		} else {
			v.Secret = &v1.SecretVolumeSource{SecretName: object}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return mergetest.Pod(p)
}

// object returns "cm/NAME" or "secret/NAME" with a value.
func object(ref, value string) *manifest.Object {
	kind, name, _ := strings.Cut(ref, "/")
	meta := metav1.ObjectMeta{Name: name, Namespace: "default"}
	var o *manifest.Object
	var err error
	if kind == "cm" {
		o, err = manifest.NewConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"v": value}})
	} else {
		o, err = manifest.NewSecret(&v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"v": []byte(value)}})
	}
	if err != nil {
		panic(err)
	}
	return o
}

func keyOf(ref string) manifest.ObjectKey { return object(ref, "").Key() }

// heldObjects returns known objects of a consumer, of the source file unless another is given:
// "api:cm/a=VALUE", or without a value for a missing object.
func heldObjects(texts ...string) []*podconfigv1.KnownObject {
	var out []*podconfigv1.KnownObject
	for _, text := range texts {
		source, rest, ok := strings.Cut(text, ":")
		if !ok {
			source, rest = "file", text
		}
		ref, value, held := strings.Cut(rest, "=")
		k := &podconfigv1.KnownObject{Ref: objects.Ref{Source: source, ObjectKey: keyOf(ref)}.Message()}
		if held {
			k.Digest = object(ref, value).Digest
		}
		out = append(out, k)
	}
	return out
}

// objectStream is one subscription to objects.
type objectStream struct {
	t      *testing.T
	cancel context.CancelFunc
	podconfigv1.PodConfigService_WatchObjectsClient
}

// watchObjects subscribes. The stream ends with the test.
func (n *objectNode) watchObjects(req *podconfigv1.WatchObjectsRequest) *objectStream {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	n.t.Cleanup(cancel)
	s, err := n.api.WatchObjects(ctx, req)
	if err != nil {
		n.t.Fatalf("WatchObjects: %v; want a stream", err)
	}
	return &objectStream{t: n.t, cancel: cancel, PodConfigService_WatchObjectsClient: s}
}

func resumed(cursor *podconfigv1.Cursor, held ...*podconfigv1.KnownObject) *podconfigv1.WatchObjectsRequest {
	return &podconfigv1.WatchObjectsRequest{ResumeAfter: cursor, KnownObjects: held}
}

// objectUnit is what a consumer applies as a whole.
type objectUnit struct {
	messages []*podconfigv1.WatchObjectsResponse
	cursor   *podconfigv1.Cursor
}

// unit reads the next unit.
func (s *objectStream) unit() objectUnit {
	s.t.Helper()
	var u objectUnit
	for {
		m, err := s.Recv()
		if err != nil {
			s.t.Fatalf("the stream ended with %v; want another message", err)
		}
		u.messages = append(u.messages, m)
		if m.GetHeartbeat() == nil && m.GetContinued() == (m.GetCursor() != nil) {
			s.t.Fatalf("message %d of a unit has continued=%v and cursor %v; want exactly one of them", len(u.messages), m.GetContinued(), m.GetCursor())
		}
		if !m.GetContinued() {
			u.cursor = m.GetCursor()
			return u
		}
	}
}

// want reads the next unit and compares it with lines like "PUT cm/a=1" or "synced file api?", where a source that
// isn't ready has a question mark.
func (s *objectStream) want(lines ...string) objectUnit {
	s.t.Helper()
	u := s.unit()
	if got, want := u.String(), strings.Join(lines, "\n"); got != want {
		s.t.Fatalf("the next unit is\n%s\nwant\n%s", got, want)
	}
	return u
}

func (u objectUnit) String() string {
	var lines []string
	for _, m := range u.messages {
		switch e := m.GetEvent().(type) {
		case *podconfigv1.WatchObjectsResponse_Update:
			line := strings.TrimPrefix(e.Update.GetOp().String(), "OBJECT_OPERATION_")
			for _, o := range e.Update.GetObjects() {
				line += " " + objectText(o)
			}
			lines = append(lines, line)
		case *podconfigv1.WatchObjectsResponse_Synced:
			lines = append(lines, "synced"+sourcesText(e.Synced.GetSources()))
		case *podconfigv1.WatchObjectsResponse_Heartbeat:
			lines = append(lines, "heartbeat"+sourcesText(e.Heartbeat.GetSources()))
		default:
			lines = append(lines, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(lines, "\n")
}

func objectText(o *podconfigv1.Object) string {
	text := map[podconfigv1.ObjectKind]string{
		podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP: "cm/", podconfigv1.ObjectKind_OBJECT_KIND_SECRET: "secret/",
	}[o.GetRef().GetKind()] + o.GetRef().GetName()
	if source := o.GetRef().GetSource(); source != "file" {
		text = source + ":" + text
	}
	if o.GetJson() == nil {
		return text
	}
	value := o.GetJson().AsMap()["data"].(map[string]any)["v"].(string)
	if o.GetRef().GetKind() == podconfigv1.ObjectKind_OBJECT_KIND_SECRET {
		plain, _ := base64.StdEncoding.DecodeString(value)
		value = string(plain)
	}
	return text + "=" + value
}

func sourcesText(sources []*podconfigv1.SourceReadiness) string {
	text := ""
	for _, s := range sources {
		text += " " + s.GetName()
		if !s.GetReady() {
			text += "?"
		}
	}
	return text
}

// asked is an object source under a test's control.
type asked struct {
	t      *testing.T
	wanted <-chan []manifest.ObjectKey
	out    func(manifest.ObjectKey, *manifest.Object)
}

// follow makes the node follow the objects of a source until the test ends.
func (n *objectNode) follow(source string) *asked {
	a, ready := &asked{t: n.t}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = n.objects.Follow(ctx, source, func(
			ctx context.Context, wanted <-chan []manifest.ObjectKey, out func(manifest.ObjectKey, *manifest.Object),
		) error {
			a.wanted, a.out = wanted, out
			close(ready)
			<-ctx.Done()
			return nil
		})
	})
	n.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	<-ready
	return a
}

// want waits until exactly these objects are requested from the source.
func (a *asked) want(refs ...string) {
	a.t.Helper()
	want := ""
	for _, ref := range refs {
		want += keyOf(ref).String() + " "
	}
	timeout := time.After(deadline)
	for {
		select {
		case keys := <-a.wanted:
			got := ""
			for _, key := range keys {
				got += key.String() + " "
			}
			if got == want {
				return
			}
		case <-timeout:
			a.t.Fatalf("the source isn't asked for %q", want)
		}
	}
}

func (a *asked) report(ref, value string) { a.out(keyOf(ref), object(ref, value)) }
func (a *asked) miss(ref string)          { a.out(keyOf(ref), nil) }
