package relay

import (
	"context"
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
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	objecthub "github.com/podstream/podstream/internal/mergesvc/objects"
)

// startObjects starts a podconfigd that keeps this many revisions of objects. Zero means the default.
func startObjects(t *testing.T, endpoint string, revisions int, names ...string) *podconfigd {
	t.Helper()
	d := start(t, "up", endpoint, "", names...)
	d.objects = objecthub.New(objecthub.Config{History: d.hub.History(), Revisions: revisions})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.objects.Run(ctx) })
	hub := d.kill
	d.kill = sync.OnceFunc(func() {
		d.down()
		cancel()
		running.Wait()
		hub()
	})
	t.Cleanup(d.kill)
	return d
}

// give merges a set of one origin: a pod of the relay's node that uses some objects, and the existing ones,
// NAME=VALUE.
func (d *podconfigd) give(source, uses string, there ...string) {
	d.t.Helper()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: source, UID: types.UID("pod-" + source)}, Spec: v1.PodSpec{NodeName: "own-node"},
	}
	for _, name := range strings.Fields(uses) {
		v := v1.Volume{Name: name}
		if key(name).Kind == manifest.SecretKind {
			v.Secret = &v1.SecretVolumeSource{SecretName: name}
		} else {
			v.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	o := &manifest.Origin{Name: "o", Pods: []*manifest.Pod{mergetest.Pod(p)}}
	for _, text := range there {
		object, err := decodeObject(wireObject(source + "/" + text))
		if err != nil {
			d.t.Fatal(err)
		}
		o.Objects = append(o.Objects, object)
	}
	d.second++
	mergesvc.Intake{Pods: d.hub, Objects: d.objects}.Apply(manifest.Set{Source: source, ReadTime: time.Unix(d.second, 0), Origins: []*manifest.Origin{o}})
}

// TestObjectsOfAService: the objects of a real upstream are passed on, and none twice: neither after its
// restart nor after more changes than it keeps.
func TestObjectsOfAService(t *testing.T) {
	up := startObjects(t, socket(t), 0, "file")
	up.give("file", "c1 s1", "c1=1")
	up.up()
	f := follow(t, up.endpoint, nil)
	f.want("c1", "s1", "c2")
	f.expect("c1=1", "s1 is missing")
	up.give("file", "c1 s1", "c1=1", "s1=x")
	f.expect("s1=x")
	up.give("file", "c1 s1 c2", "c1=2", "s1=x", "c2=new")
	f.expect("c1=2", "c2=new")
	up.give("file", "c1 c2", "c2=new")
	f.expect("c1 is missing")
	// s1 was removed as well. No pod refers to it now.
	up.give("file", "c1 c2", "c2=newer")
	f.expect("c2=newer")
	<-up.wishes

	// After a restart, and before its source was read, it has no object. Unchanged ones aren't reported again.
	up.kill()
	up = startObjects(t, up.endpoint, 0, "file")
	up.up()
	if req := <-up.wishes; len(req.GetKnownObjects()) != 2 {
		t.Errorf("after a restart the relay's known objects are %v; want c1, which is missing, and c2", req.GetKnownObjects())
	}
	up.give("file", "c1 c2", "c2=newer")
	up.give("file", "c1 c2", "c1=back", "c2=newer")
	f.expect("c1=back")
	f.want()
}

// TestObjectsAfterTheHistory: a relay that was away for longer than its upstream's history receives the
// difference.
func TestObjectsAfterTheHistory(t *testing.T) {
	up := startObjects(t, socket(t), 2, "file")
	up.give("file", "c1 c2 s1 s2", "c1=1", "c2=1", "s1=1", "s2=1")
	up.up()
	f := follow(t, up.endpoint, nil)
	f.want("c1", "c2", "s1", "s2")
	f.expect("c1=1", "c2=1", "s1=1", "s2=1")
	<-up.wishes
	up.down()
	for i := range 10 {
		up.give("file", "c1 c2 s1 s2", fmt.Sprintf("c1=%d", i), "c2=1", "s1=1", "s2=1")
	}
	up.give("file", "c1 c2 s1", "c1=last", "c2=1")
	up.up()
	f.expect("c1=last", "s1 is missing")
	up.give("file", "c1 c2 s1", "c1=last", "c2=2")
	f.expect("c2=2")
	if req := <-up.wishes; req.GetResumeAfter() == nil || len(req.GetKnownObjects()) != 4 {
		t.Errorf("the relay resumes after %v, knowing %d objects; want its cursor, and 4", req.GetResumeAfter(), len(req.GetKnownObjects()))
	}
}

// TestObjectsOfASourceThatGoes: when a source is removed, another source's object counts.
func TestObjectsOfASourceThatGoes(t *testing.T) {
	up := startObjects(t, socket(t), 0, "file", "file:b")
	up.give("file", "c1 c2", "c2=2")
	up.give("file:b", "c1 c3", "c1=b", "c3=3")
	up.up()
	f := follow(t, up.endpoint, nil)
	f.want("c1", "c2", "c3")
	f.expect("c1=b", "c2=2", "c3=3")
	up.hub.Configure([]merge.Source{{Name: "file"}})
	up.objects.Drop("file:b")
	f.expect("c1 is missing")
	up.give("file", "c1 c2", "c1=a", "c2=2")
	f.expect("c1=a")
}
